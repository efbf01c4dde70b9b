// RUN: ge-opt %s --target tiny -p graph-to-fused,fused-to-npu | filecheck %s
// RUN: ge-opt %s --target tiny -p graph-to-fused,fused-to-npu | ge-opt --target tiny | filecheck %s
// RUN: ge-opt %s --target tiny -p graph-to-fused,fused-to-npu,schedule | filecheck %s --check-prefix CODE

// Both branches write to where their results are wanted, and read where their caller has things.
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = graph.if @then @else(%c, %x) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.abs %r : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @then(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
func.func @else(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
// CHECK:      [[C:%.*]] = npu.tensor "input" {label = "in0"} : !npu.hbm<[], [], b8>
// CHECK-NEXT: [[X:%.*]] = npu.tensor "input" {label = "in1"}
// CHECK:      [[R:%.*]] = npu.tensor "temp"
// CHECK:      npu.choose [[C]] at 0 : !npu.hbm<[], [], b8> {
// CHECK-NEXT:   npu.invoke @k0 [[X]], [[R]] outs 1 offsets <0, 0>
// CHECK-NEXT: } else {
// CHECK-NEXT:   npu.invoke @k1 [[X]], [[R]] outs 1 offsets <0, 0>
// CHECK-NEXT: }

// CODE:      npu.function @main {
// CODE-NEXT:   npu.la x0, in0
// CODE-NEXT:   npu.lds x0, gm[x0], b8
// CODE-NEXT:   npu.bz x0, .L0_else
// CODE-NEXT:   npu.la x0, in1
// CODE-NEXT:   npu.la x1, arena
// CODE-NEXT:   npu.source ["Exp"]
// CODE-NEXT:   npu.call k0
// CODE-NEXT:   npu.sync.arrive
// CODE-NEXT:   npu.sync.wait
// CODE-NEXT:   npu.jump .L0_end
// CODE-NEXT:   npu.label ".L0_else"
// CODE-NEXT:   npu.la x0, in1
// CODE-NEXT:   npu.la x1, arena
// CODE-NEXT:   npu.source []
// CODE-NEXT:   npu.call k1
// CODE-NEXT:   npu.sync.arrive
// CODE-NEXT:   npu.sync.wait
// CODE-NEXT:   npu.label ".L0_end"
// CODE-NEXT:   npu.la x0, arena
// CODE-NEXT:   npu.la x1, out0
// CODE-NEXT:   npu.source ["Abs"]
// CODE-NEXT:   npu.call k2
