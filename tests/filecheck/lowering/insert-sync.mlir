// RUN: ge-opt %s -p insert-sync --split-input-file | filecheck %s

// Forward flags inside an iteration, backward ones for the copy that is written again: raised before
// the kernel, taken back behind it.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%x: !npu.hbm<[4000], [1], f32>, %y: !npu.hbm<[4000], [1], f32>):
    // CHECK:      npu.set "mte3" to "v" base 0 copies 1
    // CHECK-NEXT: npu.set "v" to "mte2v" base 0 copies 1
    // CHECK-NEXT: npu.set "v" to "mte2v" base 1 copies 1
    npu.for "block" <d = 100> attributes {cores} {
      %0 = npu.buffer "x_ub" <"d"> {copies = 2 : i64} : !npu.buffer<ub, f32>
      %4 = npu.buffer "y" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      npu.move %x to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vexp" %4 from %0 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.move %4 to %y {map = #npu.map<"d">} : !npu.buffer<ub, f32> to !npu.hbm<[4000], [1], f32>
      // CHECK:      npu.wait "v" to "mte2v" base 0 copies 2
      // CHECK-NEXT: npu.move %x to
      // CHECK-NEXT: npu.set "mte2v" to "v" base 0 copies 2
      // CHECK-NEXT: npu.wait "mte2v" to "v" base 0 copies 2
      // CHECK-NEXT: npu.wait "mte3" to "v" base 0 copies 1
      // CHECK-NEXT: npu.vector "vexp"
      // CHECK-NEXT: npu.set "v" to "mte3" base 0 copies 1
      // CHECK-NEXT: npu.set "v" to "mte2v" base 0 copies 2
      // CHECK-NEXT: npu.wait "v" to "mte3" base 0 copies 1
      // CHECK-NEXT: npu.move
      // CHECK-NEXT: npu.set "mte3" to "v" base 0 copies 1
    }
    // CHECK-NEXT: }
    // CHECK-NEXT: npu.wait "v" to "mte2v" base 0 copies 1
    // CHECK-NEXT: npu.wait "v" to "mte2v" base 1 copies 1
    // CHECK-NEXT: npu.wait "mte3" to "v" base 0 copies 1
  }
}

// -----

// One unit needs no flag: it is in order. Loads and steps that follow each other share one.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%x: !npu.hbm<[4000], [1], f32>, %y: !npu.hbm<[4000], [1], f32>):
    npu.for "block" <d = 100> attributes {cores} {
      %0 = npu.buffer "a" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      %1 = npu.buffer "b" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      npu.move %x to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.move %y to %1 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vabs" %0 from %0 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.vector "vabs" %1 from %1 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      // CHECK:      npu.for
      // CHECK:      npu.wait "v" to "mte2v"
      // CHECK-NEXT: npu.move
      // CHECK-NEXT: npu.move
      // CHECK-NEXT: npu.set "mte2v" to "v"
      // CHECK-NEXT: npu.wait "mte2v" to "v"
      // CHECK-NEXT: npu.vector
      // CHECK-NEXT: npu.vector
      // CHECK-NEXT: npu.set "v" to "mte2v"
      // CHECK-NEXT: }
    }
  }
}
