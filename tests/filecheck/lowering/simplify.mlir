// RUN: ge-opt %s -p simplify --split-input-file | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<24xf32>) {
  %one = graph.constant <"0x0000803F"> : tensor<f32>
  %zero = graph.constant <"0x00000000"> : tensor<f32>
  %a = graph.identity %x {source = "id"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %b = graph.mul %a, %one : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %c = graph.add %zero, %b : (tensor<f32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %d = graph.relu %c : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: %d = graph.relu %x

  %e = graph.transpose %d {perm = [1, 0, 2], source = "t0"} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %f = graph.transpose %e {perm = [2, 1, 0], source = "t1"} : (tensor<3x2x4xf32>) -> tensor<4x2x3xf32>
  // CHECK-NEXT: %f = graph.transpose %d {perm = [2, 0, 1], source = "t1,t0"}

  %g = graph.unsqueeze %d {axes = [0]} : (tensor<2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %h = graph.flatten %g {axis = 0} : (tensor<1x2x3x4xf32>) -> tensor<1x24xf32>
  %i = graph.squeeze %h {axes = [0]} : (tensor<1x24xf32>) -> tensor<24xf32>
  // CHECK-NEXT: %i = graph.reshape %d {shape = [24]}
  func.return %d, %f, %i : tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<24xf32>
}

// -----

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x3x4xf16>) -> (tensor<1x3x4xf16>, tensor<3x1x4xf16>, tensor<1x3x4xf16>) {
  %a = graph.cast %x {to = f32} : (tensor<1x3x4xf16>) -> tensor<1x3x4xf32>
  %b = graph.cast %a {to = f16} : (tensor<1x3x4xf32>) -> tensor<1x3x4xf16>
  %c = graph.pad %b {pads = [0, 0, 0, 0, 0, 0]} : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %d = graph.slice %c {axes = [1], ends = [9], starts = [0], steps = [1]} : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  // Moving a dim of 1 moves no element.
  %e = graph.transpose %d {perm = [1, 0, 2]} : (tensor<1x3x4xf16>) -> tensor<3x1x4xf16>
  // CHECK-NEXT: %e = graph.reshape %x {shape = [3, 1, 4]}

  %two = graph.constant <"0x0040"> : tensor<f16>
  %f = graph.pow %d, %two : (tensor<1x3x4xf16>, tensor<f16>) -> tensor<1x3x4xf16>
  // CHECK-NEXT: %f = graph.mul %x, %x
  // CHECK-NEXT: return %x, %e, %f
  func.return %d, %e, %f : tensor<1x3x4xf16>, tensor<3x1x4xf16>, tensor<1x3x4xf16>
}

// -----

// What looks alike and is not: all of it stays.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>) {
  // A cast to half loses digits.
  %a = graph.cast %x {to = f16} : (tensor<4xf32>) -> tensor<4xf16>
  %b = graph.cast %a {to = f32} : (tensor<4xf16>) -> tensor<4xf32>
  // CHECK-NEXT: %a = graph.cast
  // CHECK-NEXT: %b = graph.cast
  // A slice that turns the order.
  %c = graph.slice %x {axes = [0], ends = [-9], starts = [-1], steps = [-1]} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %c = graph.slice
  // A product with ones that broadcasts.
  %ones = graph.constant <"0x0000803F0000803F"> : tensor<2x1xf32>
  %d = graph.mul %x, %ones : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %ones = graph.constant
  // CHECK-NEXT: %d = graph.mul
  // A dropout behind a softmax: one kernel computes both.
  %e = graph.softmax %x : (tensor<4xf32>) -> tensor<4xf32>
  %f = graph.dropout %e : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %e = graph.softmax
  // CHECK-NEXT: %f = graph.dropout
  func.return %b, %c, %d, %f : tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>
}

// -----

// A product over nothing is what is added to it.
// CHECK-LABEL: @main(%a
func.func @main(%a: tensor<2x0xf32>, %b: tensor<0x3xf32>, %c: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = graph.gemm %a, %b, %c {beta = 2.0} : (tensor<2x0xf32>, tensor<0x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[scaled:.*]] = graph.mul %c, %{{.*}} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK-NEXT: %r = graph.expand %[[scaled]] {shape = [2, 3]}
  func.return %r : tensor<2x3xf32>
}
