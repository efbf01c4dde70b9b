// RUN: ge-opt %s -p narrow-integers | filecheck %s

// Positions have 64 bits at the door only; what is computed from them has 32.
// CHECK: func.func @main(%p: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>)
func.func @main(%p: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  // CHECK-NEXT: %[[LOW:.+]] = graph.cast %p {to = i32}
  %three = graph.constant <"0x0300000000000000"> : tensor<i64>
  // CHECK: %[[THREE:.+]] = graph.constant <"0x03000000"> : tensor<i32>
  %sum = graph.add %p, %three : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  // CHECK-NEXT: %sum = graph.add %[[LOW]], %[[THREE]] : (tensor<4xi32>, tensor<i32>)
  %f = graph.cast %sum {to = f32} : (tensor<4xi64>) -> tensor<4xf32>
  // CHECK-NEXT: %f = graph.cast %sum {to = f32} : (tensor<4xi32>)
  // CHECK-NEXT: %[[OUT:.+]] = graph.cast %sum {to = i64}
  func.return %f, %sum : tensor<4xf32>, tensor<4xi64>
}
