// RUN: ge-opt %s -p split-sums{target=ascend910b1} --split-input-file | filecheck %s

// A thin product has too few tiles for the cores: slices of its sum are computed side by side, and
// added up by a kernel that does what came behind the product.
// CHECK:      fused.view %x <0> strides <[[K:[0-9]+]], 4096, 1> : tensor<1x4096xf16> -> tensor<[[S:[0-9]+]]x1x[[K]]xf16>
// CHECK-NEXT: fused.view %w <0> strides <{{[0-9]+}}, 1024, 1> : tensor<4096x1024xf16> -> tensor<[[S]]x[[K]]x1024xf16>
// CHECK:      graph.cast {{.*}} -> tensor<[[S]]x1x1024xf32>
// CHECK:      fused.rowwise "MatMulRelu"({{.*}}, %b)
// CHECK:      graph.reduce_sum {{.*}} {axes = [0], keepdims = false}
// CHECK-NEXT: graph.cast {{.*}} -> tensor<1x1024xf16>
// CHECK-NEXT: graph.add
func.func @main(%x: tensor<1x4096xf16>, %w: tensor<4096x1024xf16>, %b: tensor<1024xf16>) -> tensor<1x1024xf16> {
  %y = fused.matmul "MatMulRelu"(%x, %w, %b) attributes {sources = ["mm"]} {
  ^bb0(%acc: tensor<1x1024xf16>, %bias: tensor<1024xf16>):
    %0 = graph.add %acc, %bias : (tensor<1x1024xf16>, tensor<1024xf16>) -> tensor<1x1024xf16>
    fused.yield %0 : tensor<1x1024xf16>
  } : (tensor<1x4096xf16>, tensor<4096x1024xf16>, tensor<1024xf16>) -> tensor<1x1024xf16>
  func.return %y : tensor<1x1024xf16>
}

// -----

// A product with a tile for each core stays as it is.
// CHECK-LABEL: func.func @main(%x: tensor<2048x4096xf16>
// CHECK-NOT: fused.view
func.func @main(%x: tensor<2048x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<2048x4096xf16> {
  %y = fused.matmul "MatMul"(%x, %w) attributes {sources = ["mm"]} {
  ^bb0(%acc: tensor<2048x4096xf16>):
    fused.yield %acc : tensor<2048x4096xf16>
  } : (tensor<2048x4096xf16>, tensor<4096x4096xf16>) -> tensor<2048x4096xf16>
  func.return %y : tensor<2048x4096xf16>
}
