// RUN: ge-opt %s -p set-precision{mode=fp16} --split-input-file | filecheck %s --check-prefix HALF
// RUN: ge-opt %s -p set-precision{mode=mixed} --split-input-file | filecheck %s --check-prefix MIXED
// RUN: ge-opt %s -p set-precision{mode=fp16},set-precision{mode=fp32} --split-input-file | filecheck %s --check-prefix WIDE
// RUN: not ge-opt %s -p set-precision{mode=fp61} --split-input-file 2>&1 | filecheck %s --check-prefix WRONG

// WRONG: error: 'mode' must be one of fp32, fp16, bf16, mixed, got 'fp61'; did you mean 'fp16'?

// Declared types stay; a constant is rounded; what is an integer is not touched.
// HALF-LABEL: @main(%x
// HALF-SAME: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>)
// HALF-NEXT: %x_1 = graph.cast %x {to = f16}
// HALF-NEXT: %two = graph.constant <"0x0040"> {source = "two"} : tensor<f16>
// HALF-NEXT: %a = graph.mul %x_1, %two {source = "a"} : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
// HALF-NEXT: %k = graph.cast %i {to = f16} : (tensor<4xi64>) -> tensor<4xf16>
// HALF-NEXT: %b = graph.sub %a, %k
// HALF-NEXT: %j = graph.add %i, %i
// HALF-NEXT: %b_1 = graph.cast %b {to = f32}
// HALF-NEXT: func.return %b_1, %j : tensor<4xf32>, tensor<4xi64>

// In the other direction the casts of the first pass are gone.
// WIDE-LABEL: @main(%x
// WIDE-NEXT: %two = graph.constant <"0x00000040"> {source = "two"} : tensor<f32>
// WIDE-NEXT: %a = graph.mul %x, %two
// WIDE-NEXT: %k = graph.cast %i {to = f32}
// WIDE-NEXT: %b = graph.sub %a, %k
// WIDE-NEXT: %j = graph.add %i, %i
// WIDE-NEXT: func.return %b, %j
func.func @main(%x: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %two = graph.constant <"0x00000040"> {source = "two"} : tensor<f32>
  %a = graph.mul %x, %two {source = "a"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %k = graph.cast %i {to = f32} : (tensor<4xi64>) -> tensor<4xf32>
  %b = graph.sub %a, %k : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %j = graph.add %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  func.return %b, %j : tensor<4xf32>, tensor<4xi64>
}

// -----

// The residual stream and the softmax stay in f32, also through a reshape; a bias does not.
// MIXED-LABEL: @main(%x
// MIXED: %c = graph.constant <"0x003C"> : tensor<f16>
// MIXED-NEXT: %a = graph.add %x_1, %c : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
// MIXED-NEXT: %a_1 = graph.cast %a {to = f32}
// MIXED-NEXT: %r = graph.add %x, %a_1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// MIXED-NEXT: %t = graph.reshape %r {shape = [2, 2]} : (tensor<4xf32>) -> tensor<2x2xf32>
// MIXED-NEXT: %s = graph.softmax %t : (tensor<2x2xf32>) -> tensor<2x2xf32>
// MIXED-NEXT: %s_1 = graph.cast %s {to = f16}
// MIXED-NEXT: %y = graph.relu %s_1 : (tensor<2x2xf16>) -> tensor<2x2xf16>
// MIXED-NEXT: %y_1 = graph.cast %y {to = f32}
// MIXED-NEXT: func.return %y_1
func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %c = graph.constant <"0x0000803F"> : tensor<f32>
  %a = graph.add %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.add %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.reshape %r {shape = [2, 2]} : (tensor<4xf32>) -> tensor<2x2xf32>
  %s = graph.softmax %t : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = graph.relu %s : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// Beyond the range of f16 is infinite, as numpy rounds.
// HALF: graph.constant <"0x00FC"> : tensor<f16>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = graph.constant <"0x286B6ECE"> : tensor<f32>
  %a = graph.max %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
