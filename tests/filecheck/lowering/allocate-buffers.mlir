// RUN: ge-opt %s -p allocate-buffers | filecheck %s

// Tiles that only the vector unit sees lend each other their bytes: u needs its own, because t is
// read again; v takes the place of t, which makes it; w is no tile like v, so it lies elsewhere.
// The others lie behind them, all copies in a row.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%x: !npu.hbm<[4000], [1], f32>, %y: !npu.hbm<[4000], [1], f32>):
    npu.for "block" <d = 100> attributes {cores} {
      %0 = npu.buffer "x_ub" <"d"> {copies = 2 : i64} : !npu.buffer<ub, f32>
      %1 = npu.buffer "t" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      %2 = npu.buffer "u" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      %3 = npu.buffer "v" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f32>
      %4 = npu.buffer "y" <"d"> {copies = 2 : i64} : !npu.buffer<ub, f32>
      %5 = npu.buffer "w" <"d"> {copies = 1 : i64} : !npu.buffer<ub, f16>
      // CHECK:      npu.buffer "x_ub" <"d"> {copies = 2 : i64, address = 832 : i64}
      // CHECK-NEXT: npu.buffer "t" <"d"> {copies = 1 : i64, address = 0 : i64}
      // CHECK-NEXT: npu.buffer "u" <"d"> {copies = 1 : i64, address = 416 : i64}
      // CHECK-NEXT: npu.buffer "v" <"d"> {copies = 1 : i64, address = 0 : i64}
      // CHECK-NEXT: npu.buffer "y" <"d"> {copies = 2 : i64, address = 1664 : i64}
      // CHECK-NEXT: npu.buffer "w" <"d"> {copies = 1 : i64, address = 416 : i64}
      npu.move %x to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vabs" %1 from %0 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.vector "vexp" %2 from %1 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
      npu.vector "vadd" %3 from %1, %2 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>, !npu.buffer<ub, f32>
      npu.vector "vconv" %5 from %3 {words = ["rint"]} : !npu.buffer<ub, f16> from !npu.buffer<ub, f32>
      npu.vector "vconv" %4 from %5 {words = ["rint"]} : !npu.buffer<ub, f32> from !npu.buffer<ub, f16>
      npu.move %4 to %y {map = #npu.map<"d">} : !npu.buffer<ub, f32> to !npu.hbm<[4000], [1], f32>
    }
  }
}
