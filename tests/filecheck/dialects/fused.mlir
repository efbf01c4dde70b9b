// RUN: ge-opt %s | ge-opt | filecheck %s

// CHECK-LABEL: func.func @main(%x
func.func @main(%x: tensor<2x6x8xf16>, %w: tensor<8x4xf16>, %i: tensor<1x4x9x9xf16>, %f: tensor<4x4x3x3xf16>, %d: tensor<2x2xf32>) -> tensor<2x4x6xf16> {
  %0 = fused.view %x <3> strides <48, 1, 8> : tensor<2x6x8xf16> -> tensor<2x8x2xf16>
  // CHECK-NEXT: %0 = fused.view %x <3> strides <48, 1, 8> : tensor<2x6x8xf16> -> tensor<2x8x2xf16>
  %1 = fused.matmul "MatMulRelu"(%x, %w) attributes {sources = ["a", "b"], layout = #ge.ints<0, 2, 1>} {
  ^bb0(%2: tensor<2x6x4xf16>):
    %3 = graph.relu %2 : (tensor<2x6x4xf16>) -> tensor<2x6x4xf16>
    fused.yield %3 : tensor<2x6x4xf16>
  } : (tensor<2x6x8xf16>, tensor<8x4xf16>) -> tensor<2x4x6xf16>
  // CHECK-NEXT: %1 = fused.matmul "MatMulRelu"(%x, %w) attributes {sources = ["a", "b"], layout = #ge.ints<0, 2, 1>} {
  // CHECK-NEXT: ^bb0(%2: tensor<2x6x4xf16>):
  // CHECK-NEXT:   %3 = graph.relu %2
  // CHECK-NEXT:   fused.yield %3 : tensor<2x6x4xf16>
  // CHECK-NEXT: } : (tensor<2x6x8xf16>, tensor<8x4xf16>) -> tensor<2x4x6xf16>
  %4 = fused.conv2d "Conv2D"(%i, %f) attributes {sources = ["c"], strides = #ge.ints<2, 2>, pads = #ge.ints<1, 1, 1, 1>, dilations = #ge.ints<1, 1>, group = 1 : i64} {
  ^bb0(%5: tensor<1x4x5x5xf16>):
    fused.yield %5 : tensor<1x4x5x5xf16>
  } : (tensor<1x4x9x9xf16>, tensor<4x4x3x3xf16>) -> tensor<1x4x5x5xf16>
  // CHECK: fused.conv2d "Conv2D"(%i, %f) attributes {sources = ["c"], strides = #ge.ints<2, 2>, pads = #ge.ints<1, 1, 1, 1>, dilations = #ge.ints<1, 1>, group = 1 : i64} {
  %6 = fused.pool "MaxPool"(%i) attributes {sources = ["p"], reduction = "max", window = #ge.ints<3, 3>, strides = #ge.ints<2, 2>, pads = #ge.ints<1, 1, 1, 1>, dilations = #ge.ints<1, 1>} {
  ^bb0(%7: tensor<1x4x5x5xf16>):
    fused.yield %7 : tensor<1x4x5x5xf16>
  } : (tensor<1x4x9x9xf16>) -> tensor<1x4x5x5xf16>
  // CHECK: fused.pool "MaxPool"(%i) attributes {sources = ["p"], reduction = "max", window = #ge.ints<3, 3>
  %8 = fused.concat "Concat"(%4, %6) attributes {sources = ["j"], axis = 1 : i64} {
  ^bb0(%9: tensor<1x4x5x5xf16>, %10: tensor<1x4x5x5xf16>):
    fused.yield %9 : tensor<1x4x5x5xf16>
  } : (tensor<1x4x5x5xf16>, tensor<1x4x5x5xf16>) -> tensor<1x8x5x5xf16>
  // CHECK: fused.concat "Concat"(%4, %6) attributes {sources = ["j"], axis = 1 : i64} {
  %join = fused.join "Join"(%4) attributes {sources = ["j"], axis = 1 : i64} {
  ^bb0(%part: tensor<1x4x5x5xf16>):
    %rest = graph.relu %part : (tensor<1x4x5x5xf16>) -> tensor<1x4x5x5xf16>
    fused.yield %part, %rest : tensor<1x4x5x5xf16>, tensor<1x4x5x5xf16>
  } : (tensor<1x4x5x5xf16>) -> tensor<1x8x5x5xf16>
  // CHECK: %join = fused.join "Join"(%4) attributes {sources = ["j"], axis = 1 : i64} {
  // CHECK: fused.yield %part, %rest : tensor<1x4x5x5xf16>, tensor<1x4x5x5xf16>
  %11 = fused.rowwise "Softmax"(%x) attributes {sources = ["s"]} {
  ^bb0(%12: tensor<2x6x8xf16>):
    %13 = graph.softmax %12 : (tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
    fused.yield %13 : tensor<2x6x8xf16>
  } : (tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  // CHECK: fused.rowwise "Softmax"(%x) attributes {sources = ["s"]} {
  %14 = fused.attention "Attention"(%x, %x, %x) attributes {sources = ["t"], scale = 2.500000e-01 : f64} {
  ^bb0(%15: tensor<2x6x6xf16>):
    fused.yield %15 : tensor<2x6x6xf16>
  } : (tensor<2x6x8xf16>, tensor<2x6x8xf16>, tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  // CHECK: fused.attention "Attention"(%x, %x, %x) attributes {sources = ["t"], scale = 2.500000e-01 : f64} {
  %16 = fused.host "Det"(%d) attributes {sources = ["d"]} {
  ^bb0(%17: tensor<2x2xf32>):
    %18 = graph.det %17 : (tensor<2x2xf32>) -> tensor<f32>
    fused.yield %18 : tensor<f32>
  } : (tensor<2x2xf32>) -> tensor<f32>
  // CHECK:      fused.host "Det"(%d) attributes {sources = ["d"]} {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<2x2xf32>):
  // CHECK-NEXT:   graph.det
  // CHECK-NEXT:   fused.yield
  // CHECK-NEXT: } : (tensor<2x2xf32>) -> tensor<f32>
  func.return %1 : tensor<2x4x6xf16>
}
