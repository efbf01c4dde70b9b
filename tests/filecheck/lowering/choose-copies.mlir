// RUN: ge-opt %s -p choose-copies --split-input-file | filecheck %s

// What two units touch gets two copies; what the vector unit alone sees gets one.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%x: !npu.hbm<[4000], [1], f32>, %y: !npu.hbm<[4000], [1], f32>):
    npu.for "block" <d = 800> attributes {cores} {
      %0 = npu.buffer "x_ub" <"d"> : !npu.buffer<ub, f32>
      %1 = npu.buffer "t" <"d"> : !npu.buffer<ub, f32>
      %2 = npu.buffer "y" <"d"> : !npu.buffer<ub, f32>
      // CHECK:      npu.buffer "x_ub" <"d"> {copies = 2 : i64}
      // CHECK-NEXT: npu.buffer "t" <"d"> {copies = 1 : i64}
      // CHECK-NEXT: npu.buffer "y" <"d"> {copies = 2 : i64}
      npu.move %x to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vabs" %1 from %0 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.vector "vexp" %2 from %1 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.move %2 to %y {map = #npu.map<"d">} : !npu.buffer<ub, f32> to !npu.hbm<[4000], [1], f32>
    }
  }
}

// -----

// 16 KiB hold one copy of each and a second of one of them. A number that is given stays.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%x: !npu.hbm<[4000], [1], f32>, %y: !npu.hbm<[4000], [1], f32>):
    npu.for "block" <d = 1300> attributes {cores} {
      %0 = npu.buffer "x_ub" <"d"> : !npu.buffer<ub, f32>
      %2 = npu.buffer "y" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      // CHECK:      npu.buffer "x_ub" <"d"> {copies = 2 : i64}
      // CHECK-NEXT: npu.buffer "y" <"d"> {copies = 1 : i64}
      npu.move %x to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vexp" %2 from %0 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.move %2 to %y {map = #npu.map<"d">} : !npu.buffer<ub, f32> to !npu.hbm<[4000], [1], f32>
    }
  }
}

// -----

// Uses that lie two stages apart need three copies: fewer would give wrong numbers.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%x: !npu.hbm<[4000], [1], f32>, %y: !npu.hbm<[4000], [1], f32>):
    npu.for "block" <d = 100> attributes {cores} {
      %0 = npu.buffer "x_ub" <"d"> : !npu.buffer<ub, f32>
      %2 = npu.buffer "y" <"d"> : !npu.buffer<ub, f32>
      // CHECK:      npu.buffer "x_ub" <"d"> {copies = 3 : i64}
      // CHECK-NEXT: npu.buffer "y" <"d"> {copies = 2 : i64}
      npu.move %x to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vexp" %2 from %0 {stage = 2 : i64} : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.move %2 to %y {map = #npu.map<"d">, stage = 2 : i64} : !npu.buffer<ub, f32> to !npu.hbm<[4000], [1], f32>
    }
  }
}
