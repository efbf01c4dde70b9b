// RUN: ge-opt %s -p raise-gelu --split-input-file | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = graph.constant <"0xF304B53F"> : tensor<f32>
  %one = graph.constant <"0x0000803F"> : tensor<f32>
  %half = graph.constant <"0x0000003F"> : tensor<f32>
  %a = graph.div %x, %root {source = "a"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.erf %a {source = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.add %b, %one {source = "c"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %d = graph.mul %x, %c {source = "d"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = graph.mul %d, %half {source = "e"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: %e = graph.gelu %x {source = "e,a,b,c,d"}
  func.return %e : tensor<4xf32>
}

// -----

// The tanh form, with the cube as a power.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = graph.constant <"0x00004040"> : tensor<f32>
  %c0 = graph.constant <"0x1327373D"> : tensor<f32>
  %c1 = graph.constant <"0x2A424C3F"> : tensor<f32>
  %one = graph.constant <"0x0000803F"> : tensor<f32>
  %half = graph.constant <"0x0000003F"> : tensor<f32>
  %a = graph.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.mul %a, %c0 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c = graph.add %x, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = graph.mul %c, %c1 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = graph.tanh %d : (tensor<4xf32>) -> tensor<4xf32>
  %f = graph.add %one, %e : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %g = graph.mul %half, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %h = graph.mul %g, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %h = graph.gelu %x {approximate = tanh}
  func.return %h : tensor<4xf32>
}

// -----

// Another factor than the root of 2 makes another function.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = graph.constant <"0x0000803F"> : tensor<f32>
  %one = graph.constant <"0x0000803F"> : tensor<f32>
  %half = graph.constant <"0x0000003F"> : tensor<f32>
  %a = graph.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.erf %a : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.add %b, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %d = graph.mul %x, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %e = graph.mul %d, %half
  %e = graph.mul %d, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %e : tensor<4xf32>
}
