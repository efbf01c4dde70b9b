// RUN: ge-opt %s -p raise-rms-norm --split-input-file | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %two = graph.constant <"0x00000040"> : tensor<f32>
  %one = graph.constant <"0x0000803F"> : tensor<f32>
  %eps = graph.constant <"0xBD378635"> : tensor<f32>
  %g = graph.constant <"0x0000803F000000400000404000008040"> : tensor<4xf32>
  %p = graph.pow %x, %two : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %p {axes = [-1]} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %e = graph.add %v, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %s = graph.sqrt %e : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = graph.div %one, %s {source = "r"} : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %n = graph.mul %x, %r {source = "n"} : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y = graph.mul %g, %n {source = "y"} : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %g = graph.constant
  // CHECK-NEXT: %y = graph.rms_norm %x, %g {epsilon = 1.0e-06, source = "y,n,r"}
  func.return %y : tensor<2x4xf32>
}

// -----

// The mean square is read a second time: it must be computed anyway.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>) {
  %eps = graph.constant <"0xBD378635"> : tensor<f32>
  %p = graph.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %p {axes = [-1]} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %e = graph.add %v, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %s = graph.sqrt %e : (tensor<2x1xf32>) -> tensor<2x1xf32>
  // CHECK: %n = graph.div %x, %s
  %n = graph.div %x, %s : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %n, %v : tensor<2x4xf32>, tensor<2x1xf32>
}
