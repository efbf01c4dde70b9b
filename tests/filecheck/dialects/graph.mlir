// RUN: ge-opt %s | ge-opt | filecheck %s

func.func @main(%x: tensor<2x4xf32>, %m: tensor<f32>) -> (tensor<2x4xf32>, tensor<2x2xi64>) attributes {input_names = ["x", "max"], output_names = ["y", "z"]} {
  // Attributes that have their defaults may be left out, absent operands in front of others are `_`.
  %a = graph.leaky_relu %x {source = "act", alpha = 1.0e-01} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = graph.elu %a {alpha = 1.0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = graph.clip %b, _, %m : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %d, %e = graph.top_k %c {k = 2, largest = false} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  %f = "graph.gelu"(%c) <{approximate = "tanh"}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %g = graph.cast %f {to = bf16} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  %h = graph.constant <"0x0000803F0000003F"> : tensor<2xf32>
  func.return %f, %e : tensor<2x4xf32>, tensor<2x2xi64>
}

// CHECK:      func.func @main(%x: tensor<2x4xf32>, %m: tensor<f32>) -> (tensor<2x4xf32>, tensor<2x2xi64>) attributes {input_names = ["x", "max"], output_names = ["y", "z"]} {
// CHECK-NEXT:   %a = graph.leaky_relu %x {alpha = 0.1, source = "act"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   %b = graph.elu %a {alpha = 1.0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   %c = graph.clip %b, _, %m : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
// CHECK-NEXT:   %d, %e = graph.top_k %c {k = 2, largest = false} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
// CHECK-NEXT:   %f = graph.gelu %c {approximate = tanh} : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   %g = graph.cast %f {to = bf16} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-NEXT:   %h = graph.constant <"0x0000803F0000003F"> : tensor<2xf32>
// CHECK-NEXT:   func.return %f, %e : tensor<2x4xf32>, tensor<2x2xi64>
