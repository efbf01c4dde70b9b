// RUN: ge-opt %s -p fold-batch-norm --split-input-file | filecheck %s

// 3 * x, then (. - 1) / sqrt(4) * 2 + 5: the weight stays 3, the bias is 4.
// CHECK: batch_norms_folded = 1
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %w = graph.constant <"0x00004040"> : tensor<1x1x1x1xf32>
  %mean = graph.constant <"0x0000803F"> : tensor<1xf32>
  %scale = graph.constant <"0x00000040"> : tensor<1xf32>
  %b = graph.constant <"0x0000A040"> : tensor<1xf32>
  %var = graph.constant <"0x00008040"> : tensor<1xf32>
  %0 = graph.conv %x, %w {source = "conv"} : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %1 = graph.batch_norm %0, %scale, %b, %mean, %var {epsilon = 0.0, source = "norm"} : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
  // CHECK:      %[[NEW:.*]] = graph.constant <"0x00004040"> : tensor<1x1x1x1xf32>
  // CHECK-NEXT: %[[B:.*]] = graph.constant <"0x00008040"> : tensor<1xf32>
  // CHECK-NEXT: graph.conv %x, %[[NEW]], %[[B]] {source = "conv,norm"}
  // CHECK-NOT:  graph.batch_norm
  func.return %1 : tensor<1x1x2x2xf32>
}

// -----

// A relu between them, or a second reader of the convolution: nothing is folded.
// CHECK: batch_norms_folded = 0
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x1x2x2xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %w = graph.constant <"0x00004040"> : tensor<1x1x1x1xf32>
  %p = graph.constant <"0x0000803F"> : tensor<1xf32>
  %0 = graph.conv %x, %w : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %1 = graph.relu %0 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %2 = graph.batch_norm %1, %p, %p, %p, %p : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
  // CHECK: graph.batch_norm
  %3 = graph.conv %x, %w : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %4 = graph.batch_norm %3, %p, %p, %p, %p : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
  %5 = graph.batch_norm %3, %p, %p, %p, %p {epsilon = 0.1} : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
  // CHECK: graph.batch_norm
  // CHECK: graph.batch_norm
  func.return %2, %4, %5 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
}
