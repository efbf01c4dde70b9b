// RUN: ge-opt %s -p merge-products --split-input-file | filecheck %s

// Two weights and biases side by side; what read the results reads parts of one.
// CHECK:      [[W:%.*]] = graph.constant <"0x0000803F000000400000A04000004040000080400000C040"> : tensor<2x3xf32>
// CHECK-NEXT: [[P:%.*]] = graph.matmul %x, [[W]] {source = "q,qb,k,kb"}
// CHECK-NEXT: [[B:%.*]] = graph.constant <"0x0000E0400000004100001041"> : tensor<3xf32>
// CHECK-NEXT: [[A:%.*]] = graph.add [[P]], [[B]]
// CHECK-NEXT: [[Q:%.*]], [[K:%.*]] = graph.split [[A]] {split = [2, 1], axis = 1
// CHECK-NOT:  graph.matmul
// CHECK:      graph.transpose [[Q]]
// CHECK:      graph.transpose [[K]]
func.func @main(%x: tensor<4x2xf32>) -> (tensor<2x4xf32>, tensor<1x4xf32>) {
  %v = graph.constant <"0x0000803F000000400000404000008040"> : tensor<2x2xf32>
  %w = graph.constant <"0x0000A0400000C040"> : tensor<2x1xf32>
  %b = graph.constant <"0x0000E04000000041"> : tensor<2xf32>
  %c = graph.constant <"0x00001041"> : tensor<1xf32>
  %0 = graph.matmul %x, %v {source = "q"} : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %1 = graph.add %0, %b {source = "qb"} : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %2 = graph.matmul %x, %w {source = "k"} : (tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>
  %3 = graph.add %2, %c {source = "kb"} : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %4 = graph.transpose %1 {perm = [1, 0]} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %5 = graph.transpose %3 {perm = [1, 0]} : (tensor<4x1xf32>) -> tensor<1x4xf32>
  func.return %4, %5 : tensor<2x4xf32>, tensor<1x4xf32>
}

// -----

// An activation would join its own product: these stay two.
// CHECK-LABEL: @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>)
// CHECK-NOT: graph.split
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>) {
  %v = graph.constant <"0x0000803F000000400000404000008040"> : tensor<2x2xf32>
  %w = graph.constant <"0x0000A0400000C040000080BF00000040"> : tensor<2x2xf32>
  %0 = graph.matmul %x, %v : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %1 = graph.relu %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = graph.matmul %x, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %3 = graph.transpose %2 {perm = [1, 0]} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  func.return %1, %3 : tensor<4x2xf32>, tensor<2x4xf32>
}
