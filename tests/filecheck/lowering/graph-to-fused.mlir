// RUN: ge-opt %s -p graph-to-fused --split-input-file | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x3x4xf32>, %w: tensor<4x8xf32>) -> (tensor<2x8x3xf32>, tensor<3x4xf32>) attributes {input_names = ["x", "w"], output_names = ["y", "z"]} {
  %a = graph.matmul %x, %w {source = "mm"} : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
  // A transpose that alone reads a result is written in place of it.
  %b = graph.transpose %a {perm = [0, 2, 1]} : (tensor<2x3x8xf32>) -> tensor<2x8x3xf32>
  // CHECK-NEXT: %[[MM:.*]] = fused.matmul "MatMul"(%x, %w) attributes {sources = ["mm"], layout = #ge.ints<0, 2, 1>} {
  // CHECK-NEXT: ^bb0(%[[ACC:.*]]: tensor<2x3x8xf32>):
  // CHECK-NEXT:   fused.yield %[[ACC]]
  // CHECK-NEXT: -> tensor<2x8x3xf32>

  // What rearranges strides is a view.
  %c, %d = graph.split %x {split = [1, 1]} : (tensor<2x3x4xf32>) -> (tensor<1x3x4xf32>, tensor<1x3x4xf32>)
  %e = graph.squeeze %d {axes = [0]} : (tensor<1x3x4xf32>) -> tensor<3x4xf32>
  %f = graph.relu %e {source = "relu"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: %[[VIEW:.*]] = fused.view %x <12> strides <4, 1> : tensor<2x3x4xf32> -> tensor<3x4xf32>
  // CHECK-NEXT: %[[RELU:.*]] = fused.elementwise "Relu"(%[[VIEW]]) attributes {sources = ["relu"]}
  // CHECK:      func.return %[[MM]], %[[RELU]]
  func.return %b, %f : tensor<2x8x3xf32>, tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x4x9x9xf32>) -> (tensor<1x4x5x5xf32>, tensor<1x4x9x9xf32>) attributes {input_names = ["x"], output_names = ["y", "z"]} {
  %half = graph.constant <"0x0000003F"> : tensor<f32>
  %a = graph.max_pool %x {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]} : (tensor<1x4x9x9xf32>) -> tensor<1x4x5x5xf32>
  // CHECK: fused.pool "MaxPool"(%x) attributes {sources = ["MaxPool"], {{.*}}window = #ge.ints<3, 3>, reduction = "max"}
  // A number goes into the region, it is no tensor.
  %b = graph.mul %x, %half : (tensor<1x4x9x9xf32>, tensor<f32>) -> tensor<1x4x9x9xf32>
  // CHECK: fused.elementwise "Mul"(%x)
  // CHECK: graph.constant <"0x0000003F"> : tensor<f32>
  func.return %a, %b : tensor<1x4x5x5xf32>, tensor<1x4x9x9xf32>
}

// -----

// An output is a tensor of its own: what is an input, a view or returned again is copied.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) attributes {input_names = ["x"], output_names = ["a", "b", "c"]} {
  %a = graph.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK:      %[[RELU:.*]] = fused.elementwise "Relu"
  // CHECK:      %[[X:.*]] = fused.elementwise "Copy"(%x)
  // CHECK:      %[[A:.*]] = fused.elementwise "Copy"(%[[RELU]])
  // CHECK:      func.return %[[X]], %[[RELU]], %[[A]]
  func.return %x, %a, %a : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// What only the AI CPU computes takes its operands in order; so does all that has doubles, but for
// what only moves them.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x4x4xf32>, %d: tensor<2x4xf64>) -> (tensor<2xf32>, tensor<4x2xf64>) attributes {input_names = ["x", "d"], output_names = ["y", "z"]} {
  %t = graph.transpose %x {perm = [0, 2, 1]} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %y = graph.det %t {source = "det"} : (tensor<2x4x4xf32>) -> tensor<2xf32>
  %u = graph.transpose %d {perm = [1, 0]} : (tensor<2x4xf64>) -> tensor<4x2xf64>
  %z = graph.exp %u {source = "exp"} : (tensor<4x2xf64>) -> tensor<4x2xf64>
  // CHECK:      %[[T:.*]] = fused.elementwise "Copy"(%{{.*}}) attributes {sources = ["det"]}
  // CHECK:      %[[Y:.*]] = fused.host "Det"(%[[T]]) attributes {sources = ["det"]} {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x4x4xf32>):
  // CHECK-NEXT:   %[[B:.*]] = graph.det %[[A]] : (tensor<2x4x4xf32>) -> tensor<2xf32>
  // CHECK-NEXT:   fused.yield %[[B]] : tensor<2xf32>
  // CHECK:      %[[U:.*]] = fused.elementwise "Copy"(%{{.*}})
  // CHECK:      %[[Z:.*]] = fused.host "Exp"(%[[U]])
  // CHECK:      func.return %[[Y]], %[[Z]]
  func.return %y, %z : tensor<2xf32>, tensor<4x2xf64>
}
