// RUN: ge-opt %s -p split-keys{target=ascend910b1} --split-input-file | filecheck %s

// One query for each head leaves most cores idle: slices of the keys go side by side, and what they
// leave is weighed by their largest scores.
// CHECK:      fused.view %q <0> strides <0, 128, 128, 1> : tensor<4x1x128xf16> -> tensor<[[S:[0-9]+]]x4x1x128xf16>
// CHECK-NEXT: fused.view %k <0> strides <{{[0-9]+}}, 262144, 128, 1> : tensor<4x2048x128xf16> -> tensor<[[S]]x4x[[K:[0-9]+]]x128xf16>
// CHECK-NEXT: fused.view %v
// CHECK-NEXT: fused.attention "Attention"
// CHECK-SAME: partial
// CHECK:      fused.rowwise "Attention"
// CHECK:      graph.reduce_max {{.*}} {axes = [0], keepdims = false}
// CHECK:      graph.div
// CHECK-NEXT: graph.cast {{.*}} -> tensor<4x1x128xf16>
func.func @main(%q: tensor<4x1x128xf16>, %k: tensor<4x2048x128xf16>, %v: tensor<4x2048x128xf16>) -> tensor<4x1x128xf16> {
  %y = fused.attention "Attention"(%q, %k, %v) attributes {sources = ["a"], scale = 0.1 : f64} {
  ^bb0(%s: tensor<4x1x2048xf16>):
    fused.yield %s : tensor<4x1x2048xf16>
  } : (tensor<4x1x128xf16>, tensor<4x2048x128xf16>, tensor<4x2048x128xf16>) -> tensor<4x1x128xf16>
  func.return %y : tensor<4x1x128xf16>
}

// -----

// Queries enough for all cores keep the keys together.
// CHECK-LABEL: func.func @main(%q: tensor<4x2048x128xf16>
// CHECK-NOT: partial
func.func @main(%q: tensor<4x2048x128xf16>, %k: tensor<4x2048x128xf16>, %v: tensor<4x2048x128xf16>) -> tensor<4x2048x128xf16> {
  %y = fused.attention "Attention"(%q, %k, %v) attributes {sources = ["a"], scale = 0.1 : f64} {
  ^bb0(%s: tensor<4x2048x2048xf16>):
    fused.yield %s : tensor<4x2048x2048xf16>
  } : (tensor<4x2048x128xf16>, tensor<4x2048x128xf16>, tensor<4x2048x128xf16>) -> tensor<4x2048x128xf16>
  func.return %y : tensor<4x2048x128xf16>
}
