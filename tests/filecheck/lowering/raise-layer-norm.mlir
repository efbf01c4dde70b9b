// RUN: ge-opt %s -p raise-layer-norm --split-input-file | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %two = graph.constant <"0x00000040"> : tensor<f32>
  %eps = graph.constant <"0xACC52737"> : tensor<f32>
  %g = graph.constant <"0x0000803F000000400000404000008040"> : tensor<4xf32>
  %b = graph.constant <"0x0000803F0000803F0000803F0000803F"> : tensor<4xf32>
  %m = graph.reduce_mean %x {axes = [-1], source = "m"} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %d = graph.sub %x, %m {source = "d"} : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %p = graph.pow %d, %two {source = "p"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %p {axes = [1], source = "v"} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %e = graph.add %v, %eps {source = "e"} : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %s = graph.sqrt %e {source = "s"} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %n = graph.div %d, %s {source = "n"} : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %k = graph.mul %n, %g {source = "k"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y = graph.add %k, %b {source = "y"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %g = graph.constant
  // CHECK-NEXT: %b = graph.constant
  // CHECK-NEXT: %y = graph.layer_norm %x, %g, %b {source = "y,k,n,m,d,p,v,e,s"}
  func.return %y : tensor<2x4xf32>
}

// -----

// Without scale and bias, by a reciprocal.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %eps = graph.constant <"0xACC52737"> : tensor<f32>
  %m = graph.reduce_mean %x {axes = [1, 2]} : (tensor<2x3x4xf32>) -> tensor<2x1x1xf32>
  %d = graph.sub %x, %m : (tensor<2x3x4xf32>, tensor<2x1x1xf32>) -> tensor<2x3x4xf32>
  %p = graph.mul %d, %d : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v = graph.reduce_mean %p {axes = [1, 2]} : (tensor<2x3x4xf32>) -> tensor<2x1x1xf32>
  %e = graph.add %v, %eps : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
  %s = graph.sqrt %e : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %r = graph.reciprocal %s : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %n = graph.mul %d, %r : (tensor<2x3x4xf32>, tensor<2x1x1xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: [[ONES:%[0-9a-z_]+]] = graph.constant <"0x0000803F
  // CHECK-NEXT: %n = graph.layer_norm %x, [[ONES]] {axis = -2}
  func.return %n : tensor<2x3x4xf32>
}

// -----

// The mean runs over rows and the variance over columns: this is no norm.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %eps = graph.constant <"0xACC52737"> : tensor<f32>
  %m = graph.reduce_mean %x {axes = [0]} : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %d = graph.sub %x, %m : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %p = graph.mul %d, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = graph.reduce_mean %p {axes = [1]} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  %e = graph.add %v, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = graph.sqrt %e : (tensor<4x1xf32>) -> tensor<4x1xf32>
  // CHECK: %n = graph.div %d, %s
  %n = graph.div %d, %s : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  func.return %n : tensor<4x4xf32>
}
