// RUN: ge-opt %s -p merge-duplicates | filecheck %s

func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %a = graph.softmax %x {source = "one"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = graph.softmax %x {source = "two"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK:      %a = graph.softmax %x
  // CHECK-NOT:  %b

  // Another axis is another softmax.
  %c = graph.softmax %x {axis = 0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK:      %c = graph.softmax %x {axis = 0}
  // CHECK-NEXT: func.return %a, %a, %c
  func.return %a, %b, %c : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
