// RUN: ge-opt %s | ge-opt | filecheck %s

// CHECK: npu.program "tiny" cores 2 native 1 attributes {arena = #ge.ints<512, 512, 1024>} {
npu.program "tiny" cores 2 native 1 attributes {arena = #ge.ints<512, 512, 1024>} {
  %x = npu.tensor "input" {label = "x"} : !npu.hbm<[16, 32], [32, 1], f16>
  %w = npu.tensor "weight" {value = #ge.weights<"0x003C">} : !npu.hbm<[1], [1], f16>
  %t = npu.tensor "temp" {address = 0 : i64} : !npu.hbm<[16, 32], [32, 1], f16>
  // CHECK-NEXT: %x = npu.tensor "input" {label = "x"} : !npu.hbm<[16, 32], [32, 1], f16>
  // CHECK-NEXT: %w = npu.tensor "weight" {value = #ge.weights<"0x003C">} : !npu.hbm<[1], [1], f16>
  // CHECK-NEXT: %t = npu.tensor "temp" {address = 0 : i64} : !npu.hbm<[16, 32], [32, 1], f16>
  npu.kernel @k0 "Any" attributes {sources = ["a"], dims = #npu.dims<m = 16, n = 32>} {
  ^bb0(%a: !npu.hbm<[16, 32], [32, 1], f16>, %y: !npu.hbm<[16, 32], [32, 1], f16>):
  // CHECK-NEXT: npu.kernel @k0 "Any" attributes {sources = ["a"], dims = #npu.dims<m = 16, n = 32>} {
  // CHECK-NEXT: ^bb0(%a: !npu.hbm<[16, 32], [32, 1], f16>, %y: !npu.hbm<[16, 32], [32, 1], f16>):
    npu.set "v" to "mte2v" base 0 copies 1
    // CHECK-NEXT: npu.set "v" to "mte2v" base 0 copies 1
    npu.for "block" <m = 4, n = 32> attributes {cores} {
    // CHECK-NEXT: npu.for "block" <m = 4, n = 32> attributes {cores} {
      %0 = npu.buffer "a_ub" <"2*m+n-1, n"> {copies = 2 : i64, address = 64 : i64} : !npu.buffer<ub, f16>
      %1 = npu.buffer "b_l1" <""> : !npu.buffer<l1, f16>
      // CHECK-NEXT: %0 = npu.buffer "a_ub" <"2*m+n-1, n"> {copies = 2 : i64, address = 64 : i64} : !npu.buffer<ub, f16>
      // CHECK-NEXT: %1 = npu.buffer "b_l1" <""> : !npu.buffer<l1, f16>
      npu.wait "v" to "mte2v" base 0 copies 1
      npu.move %a to %0 {map = #npu.map<"m, n">, pad = -1.000000e+00 : f64} : !npu.hbm<[16, 32], [32, 1], f16> to !npu.buffer<ub, f16>
      npu.vector "vadds" %0 from %0 {numbers = [1.000000e+00 : f64], stage = 1 : i64} : !npu.buffer<ub, f16> from !npu.buffer<ub, f16>
      // CHECK-NEXT: npu.wait "v" to "mte2v" base 0 copies 1
      // CHECK-NEXT: npu.move %a to %0 {map = #npu.map<"m, n">, pad = -1.000000e+00 : f64}
      // CHECK-NEXT: npu.vector "vadds" %0 from %0 {{{.*}}numbers = [1.000000e+00 : f64]
      npu.move %a to %0 at %y {map = #npu.map<"n">, places = #npu.map<"m">, extent = 9 : i64, pitch = 32 : i64} : !npu.hbm<[16, 32], [32, 1], f16> to !npu.buffer<ub, f16> at !npu.hbm<[16, 32], [32, 1], f16>
      // CHECK-NEXT: npu.move %a to %0 at %y {map = #npu.map<"n">, places = #npu.map<"m">, extent = 9 : i64, pitch = 32 : i64} : !npu.hbm<[16, 32], [32, 1], f16> to !npu.buffer<ub, f16> at !npu.hbm<[16, 32], [32, 1], f16>
    }
  }
  npu.kernel @k1 "Any" attributes {sources = []} {
  ^bb0(%b: !npu.hbm<[16, 32], [32, 1], f16>):
    npu.li x1, -5
    npu.label ".Lk1_1"
    npu.bnz x1, .Lk1_1
    npu.vadds ub[x1+0x40], ub[0x0], 1.5, size=[4], ds=[1], sa=[1], f16
    npu.ret
    // CHECK:      npu.li x1, -5
    // CHECK-NEXT: npu.label ".Lk1_1"
    // CHECK-NEXT: npu.bnz x1, .Lk1_1
    // CHECK-NEXT: npu.vadds ub[x1+0x40], ub[0x0], 1.5, size=[4], ds=[1], sa=[1], f16
    // CHECK-NEXT: npu.ret
  }
  npu.routine @r0 "%y0 = graph.det %x0 : (tensor<3x3xf32>) -> tensor<f32>"
  npu.kernel @k2 "Det" attributes {sources = []} {
  ^bb0(%c: !npu.hbm<[3, 3], [3, 1], f32>, %d: !npu.hbm<[], [], f32>):
    npu.aicpu r0, at=[x0,x1]
    npu.ret
  }
  // CHECK:      npu.routine @r0 "%y0 = graph.det %x0 : (tensor<3x3xf32>) -> tensor<f32>"
  // CHECK:        npu.aicpu r0, at=[x0,x1]
  npu.invoke @k0 %x, %t outs 1 offsets <3, 0> {sources = ["a"]} : !npu.hbm<[16, 32], [32, 1], f16>, !npu.hbm<[16, 32], [32, 1], f16>
  // CHECK: npu.invoke @k0 %x, %t outs 1 offsets <3, 0> {sources = ["a"]}
  npu.function @main {
    npu.source ["a", "b"]
    npu.call k0
    npu.halt
  }
  // CHECK-NEXT: npu.function @main {
  // CHECK-NEXT:   npu.source ["a", "b"]
  // CHECK-NEXT:   npu.call k0
}
