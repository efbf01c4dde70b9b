// RUN: ge-opt %s -p choose-layouts | filecheck %s

// Between convolutions, channels lie side by side; the last one's result leaves the model as it is.
// CHECK:      [[A:%.*]] = fused.conv2d "Conv2D"(%x, %w) attributes {{.*}}layout = #ge.ints<0, 2, 3, 1>
// CHECK:      } : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x8x8x32xf32>
// CHECK-NEXT: [[V:%.*]] = fused.view [[A]] <0> strides <2048, 1, 256, 32> : tensor<1x8x8x32xf32> -> tensor<1x32x8x8xf32>
// CHECK-NEXT: [[P:%.*]] = fused.pool "MaxPool"([[V]]) attributes {{.*}}layout = #ge.ints<0, 2, 3, 1>
// CHECK:      [[U:%.*]] = fused.view [[P]] <0> strides <512, 1, 128, 32> : tensor<1x4x4x32xf32> -> tensor<1x32x4x4xf32>
// CHECK-NEXT: fused.conv2d "Conv2D"([[U]], %w)
// CHECK-NOT:  layout
func.func @main(%x: tensor<1x32x8x8xf32>, %w: tensor<32x32x3x3xf32>) -> tensor<1x32x4x4xf32> {
  %0 = fused.conv2d "Conv2D"(%x, %w) attributes {sources = ["a"], strides = #ge.ints<1, 1>, pads = #ge.ints<1, 1, 1, 1>, dilations = #ge.ints<1, 1>, group = 1 : i64} {
  ^bb0(%acc: tensor<1x32x8x8xf32>):
    fused.yield %acc : tensor<1x32x8x8xf32>
  } : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  %1 = fused.pool "MaxPool"(%0) attributes {sources = ["p"], reduction = "max", window = #ge.ints<2, 2>, strides = #ge.ints<2, 2>, pads = #ge.ints<0, 0, 0, 0>, dilations = #ge.ints<1, 1>} {
  ^bb0(%m: tensor<1x32x4x4xf32>):
    fused.yield %m : tensor<1x32x4x4xf32>
  } : (tensor<1x32x8x8xf32>) -> tensor<1x32x4x4xf32>
  %2 = fused.conv2d "Conv2D"(%1, %w) attributes {sources = ["b"], strides = #ge.ints<1, 1>, pads = #ge.ints<1, 1, 1, 1>, dilations = #ge.ints<1, 1>, group = 1 : i64} {
  ^bb0(%acc: tensor<1x32x4x4xf32>):
    fused.yield %acc : tensor<1x32x4x4xf32>
  } : (tensor<1x32x4x4xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x4x4xf32>
  func.return %2 : tensor<1x32x4x4xf32>
}
