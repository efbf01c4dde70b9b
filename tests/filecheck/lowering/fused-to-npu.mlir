// RUN: ge-opt %s -p "fused-to-npu{target=\"tiny\"}" --split-input-file | filecheck %s

// Rows are cut so that two copies fit, and dealt to both cores; the bias is loaded once.
// CHECK: npu.program "tiny" cores 2 native 1
func.func @main(%x: tensor<64x100xf32>, %b: tensor<100xf32>) -> tensor<64x100xf32> attributes {input_names = ["x", "b"], output_names = ["y"]} {
  %0 = fused.elementwise "Add"(%x, %b) attributes {sources = ["add"]} {
  ^bb0(%1: tensor<64x100xf32>, %2: tensor<100xf32>):
    %3 = graph.add %1, %2 : (tensor<64x100xf32>, tensor<100xf32>) -> tensor<64x100xf32>
    fused.yield %3 : tensor<64x100xf32>
  } : (tensor<64x100xf32>, tensor<100xf32>) -> tensor<64x100xf32>
  func.return %0 : tensor<64x100xf32>
}
// CHECK-NEXT: %[[X:.*]] = npu.tensor "input" {label = "x"} : !npu.hbm<[64, 100], [100, 1], f32>
// CHECK-NEXT: %[[B:.*]] = npu.tensor "input" {label = "b"} : !npu.hbm<[100], [1], f32>
// CHECK-NEXT: %[[Y:.*]] = npu.tensor "output" {label = "y"}
// CHECK-NEXT: npu.kernel @k0 "Add" attributes {sources = ["add"], dims = #npu.dims<d0 = 64, d1 = 100>} {
// CHECK:      %[[BB:.*]] = npu.buffer "x1_ub" <"d1"> : !npu.buffer<ub, f32>
// CHECK-NEXT: npu.move %x1 to %[[BB]] {map = #npu.map<"d1">}
// CHECK-NEXT: npu.for "block" <d0 = {{.*}}, d1 = 100> attributes {cores} {
// CHECK-NEXT:   %[[XB:.*]] = npu.buffer "x0_ub" <"d0, d1"> : !npu.buffer<ub, f32>
// CHECK-NEXT:   %[[YB:.*]] = npu.buffer "y" <"d0, d1"> : !npu.buffer<ub, f32>
// CHECK-NEXT:   npu.move %x0 to %[[XB]] {map = #npu.map<"d0, d1">}
// CHECK-NEXT:   npu.vector "vadd" %[[YB]] from %[[XB]], %[[BB]]
// CHECK-NEXT:   npu.move %[[YB]] to %y {map = #npu.map<"d0, d1">}
// CHECK:      npu.invoke @k0 %[[X]], %[[B]], %[[Y]] outs 1 offsets <0, 0, 0> {sources = ["add"]}

// -----

// A product has loops of its own over what it sums, its epilogue one over rows.
// CHECK: npu.program "tiny"
func.func @main(%x: tensor<40x64xf16>, %w: tensor<64x32xf16>) -> tensor<40x32xf16> attributes {input_names = ["x", "w"], output_names = ["y"]} {
  %0 = fused.matmul "MatMulRelu"(%x, %w) attributes {sources = ["mm", "relu"]} {
  ^bb0(%1: tensor<40x32xf16>):
    %2 = graph.relu %1 : (tensor<40x32xf16>) -> tensor<40x32xf16>
    fused.yield %2 : tensor<40x32xf16>
  } : (tensor<40x64xf16>, tensor<64x32xf16>) -> tensor<40x32xf16>
  func.return %0 : tensor<40x32xf16>
}
// CHECK:      npu.for "block" <m = [[M:.*]], n = 32> attributes {cores} {
// CHECK-NEXT:   %[[ACC:.*]] = npu.buffer "acc" <"m, n"> : !npu.buffer<l0c, f32>
// CHECK:        npu.for "acc_k[[K:.*]]" <k = [[K]]> {
// CHECK:          npu.matrix %[[ACC]], %{{.*}}, %{{.*}} over ["k"]
// CHECK-NEXT:   }
// CHECK-NEXT:   npu.for "chunk0" <m = {{.*}}> {
// CHECK:          npu.move %[[ACC]] to %[[UB:.*]] :
// CHECK-NEXT:     npu.vector "vmaxs" %[[WIDE:.*]] from %[[UB]] {numbers = [0.000000e+00 : f64]}
// CHECK-NEXT:     npu.vector "vconv" %[[Y:.*]] from %[[WIDE]] {words = ["rint"]}
// CHECK-NEXT:     npu.move %[[Y]] to %y

// -----

// Equal kernels are built once; a view is an offset and strides of the call.
// CHECK: npu.program "tiny"
func.func @main(%x: tensor<2x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) attributes {input_names = ["x"], output_names = ["y", "z"]} {
  %a = fused.view %x <0> strides <1> : tensor<2x64xf32> -> tensor<64xf32>
  %b = fused.view %x <64> strides <1> : tensor<2x64xf32> -> tensor<64xf32>
  %0 = fused.elementwise "Relu"(%a) attributes {sources = ["r0"]} {
  ^bb0(%1: tensor<64xf32>):
    %2 = graph.relu %1 : (tensor<64xf32>) -> tensor<64xf32>
    fused.yield %2 : tensor<64xf32>
  } : (tensor<64xf32>) -> tensor<64xf32>
  %3 = fused.elementwise "Relu"(%b) attributes {sources = ["r1"]} {
  ^bb0(%4: tensor<64xf32>):
    %5 = graph.relu %4 : (tensor<64xf32>) -> tensor<64xf32>
    fused.yield %5 : tensor<64xf32>
  } : (tensor<64xf32>) -> tensor<64xf32>
  func.return %0, %3 : tensor<64xf32>, tensor<64xf32>
}
// CHECK:     npu.kernel @k0
// CHECK:     npu.invoke @k0 {{.*}} offsets <0, 0> {sources = ["r0"]}
// CHECK-NOT: npu.kernel
// CHECK:     npu.invoke @k0 {{.*}} offsets <64, 0> {sources = ["r1"]}

// -----

// The first core asks the AI CPU; equal operators are one routine and one kernel.
// CHECK: npu.program "tiny"
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> (tensor<f32>, tensor<f32>) attributes {input_names = ["x", "y"], output_names = ["a", "b"]} {
  %0 = fused.host "Det"(%x) attributes {sources = ["d0"]} {
  ^bb0(%1: tensor<2x2xf32>):
    %2 = graph.det %1 : (tensor<2x2xf32>) -> tensor<f32>
    fused.yield %2 : tensor<f32>
  } : (tensor<2x2xf32>) -> tensor<f32>
  %3 = fused.host "Det"(%y) attributes {sources = ["d1"]} {
  ^bb0(%4: tensor<2x2xf32>):
    %5 = graph.det %4 : (tensor<2x2xf32>) -> tensor<f32>
    fused.yield %5 : tensor<f32>
  } : (tensor<2x2xf32>) -> tensor<f32>
  func.return %0, %3 : tensor<f32>, tensor<f32>
}
// CHECK:      npu.routine @r0 "%y0 = graph.det %x0 : (tensor<2x2xf32>) -> tensor<f32>"
// CHECK-NEXT: npu.kernel @k0 "Det" attributes {sources = ["d0"]} {
// CHECK:        npu.core x2
// CHECK-NEXT:   npu.bnz x2, .Lk0_end
// CHECK-NEXT:   npu.aicpu r0, at=[x0,x1]
// CHECK-NEXT:   npu.label ".Lk0_end"
// CHECK-NEXT:   npu.ret
// CHECK-NOT:  npu.kernel
// CHECK:      npu.invoke @k0 %{{.*}}, %{{.*}} outs 1 offsets <0, 0> {sources = ["d0"]}
// CHECK:      npu.invoke @k0 %{{.*}}, %{{.*}} outs 1 offsets <0, 0> {sources = ["d1"]}

// -----

// A new row is all that is written, from where its index says, over the input.
// CHECK: npu.program "tiny"
func.func @main(%x: tensor<2x9x20xf32>, %i: tensor<2xi32>, %u: tensor<2x1x20xf32>) -> tensor<2x9x20xf32> attributes {input_names = ["past", "i", "u"], output_names = ["present"], in_place = ["past", "present"]} {
  %0 = fused.scatter "TensorScatter"(%x, %i, %u) attributes {sources = [], axis = 1 : i64, by = #ge.ints<0>} {
  ^bb0(%1: tensor<2x1x20xf32>):
    fused.yield %1 : tensor<2x1x20xf32>
  } : (tensor<2x9x20xf32>, tensor<2xi32>, tensor<2x1x20xf32>) -> tensor<2x9x20xf32>
  func.return %0 : tensor<2x9x20xf32>
}
// CHECK:      %[[Y:.*]] = npu.tensor "output" {label = "present", over = "past"}
// CHECK-NEXT: npu.kernel @k0 "TensorScatter"
// CHECK:      npu.move %{{.*}} to %y at %i {map = #npu.map<"d0, d2">, places = #npu.map<"d0">, extent = 9 : i64, pitch = 20 : i64}
// CHECK:      npu.invoke @k0 %{{.*}}, %{{.*}}, %[[Y]] outs 1

// -----

// What is read again behind the write must be copied first.
// CHECK: npu.program "tiny"
func.func @main(%x: tensor<9x20xf32>, %i: tensor<1xi32>, %u: tensor<1x20xf32>) -> (tensor<9x20xf32>, tensor<9x20xf32>) attributes {input_names = ["past", "i", "u"], output_names = ["present", "y"], in_place = ["past", "present"]} {
  %0 = fused.scatter "ScatterND"(%x, %i, %u) attributes {sources = [], axis = 0 : i64, by = #ge.ints<0>} {
  ^bb0(%1: tensor<1x20xf32>):
    fused.yield %1 : tensor<1x20xf32>
  } : (tensor<9x20xf32>, tensor<1xi32>, tensor<1x20xf32>) -> tensor<9x20xf32>
  %2 = fused.elementwise "Add"(%0, %x) attributes {sources = []} {
  ^bb0(%3: tensor<9x20xf32>, %4: tensor<9x20xf32>):
    %5 = graph.add %3, %4 : (tensor<9x20xf32>, tensor<9x20xf32>) -> tensor<9x20xf32>
    fused.yield %5 : tensor<9x20xf32>
  } : (tensor<9x20xf32>, tensor<9x20xf32>) -> tensor<9x20xf32>
  func.return %0, %2 : tensor<9x20xf32>, tensor<9x20xf32>
}
// CHECK: %[[Y:.*]] = npu.tensor "output" {label = "present"}
// CHECK: npu.invoke @k0 %{{.*}}, %[[Y]] outs 1
// CHECK: npu.invoke @k1 %{{.*}}, %{{.*}}, %[[Y]] outs 1
