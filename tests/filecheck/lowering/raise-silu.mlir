// RUN: ge-opt %s -p raise-silu | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = graph.sigmoid %x {source = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.mul %a, %x {source = "b"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %b = graph.swish %x {source = "b,a"}

  %c = graph.hard_sigmoid %x {alpha = 0.16666667} : (tensor<4xf32>) -> tensor<4xf32>
  %d = graph.mul %x, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %d = graph.hard_swish %x

  %zero = graph.constant <"0x00000000"> : tensor<f32>
  %three = graph.constant <"0x00004040"> : tensor<f32>
  %six = graph.constant <"0x0000C040"> : tensor<f32>
  %e = graph.add %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %f = graph.clip %e, %zero, %six : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  %g = graph.mul %x, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = graph.div %g, %six : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: %h = graph.hard_swish %x

  // The sigmoid of another value, and one that is read twice: both stay.
  %i = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %j = graph.mul %i, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %i = graph.sigmoid %x
  // CHECK-NEXT: %j = graph.mul %i, %z
  func.return %b, %d, %h, %j, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
