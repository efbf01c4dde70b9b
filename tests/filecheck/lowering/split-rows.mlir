// RUN: ge-opt %s -p split-rows{target=ascend910b1} --split-input-file | filecheck %s

// A row that no vector memory holds: its pieces, what is left behind them, and their results.
// CHECK-LABEL: func.func @main(%x: tensor<1x100001xf32>
// CHECK:      graph.reshape {{.*}} -> tensor<1x4x20001xf32>
// CHECK-NEXT: %[[A:.*]] = graph.reduce_max {{.*}} {axes = [2], keepdims = false} : (tensor<1x4x20001xf32>)
// CHECK:      %[[B:.*]] = graph.reduce_max {{.*}} : (tensor<1x19997xf32>) -> tensor<1x1xf32>
// CHECK-NEXT: graph.concat %[[A]], %[[B]]
// CHECK-NEXT: graph.reduce_max {{.*}} : (tensor<1x5xf32>)
func.func @main(%x: tensor<1x100001xf32>) -> tensor<1x1xf32> {
  %y = graph.reduce_max %x {axes = [1]} : (tensor<1x100001xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

// Of several axes the last ones come first, as many as fit together; small floats are summed wide.
// CHECK-LABEL: func.func @main(%x: tensor<1x8x256x256xf16>
// CHECK:      graph.cast {{.*}} -> tensor<1x8x256x256xf32>
// CHECK-NEXT: graph.reduce_sum {{.*}} {axes = [3]}
// CHECK-NEXT: graph.reduce_sum {{.*}} {axes = [2, 3]}
func.func @main(%x: tensor<1x8x256x256xf16>) -> tensor<1x8x1x1xf16> {
  %y = graph.reduce_sum %x {axes = [2, 3]} : (tensor<1x8x256x256xf16>) -> tensor<1x8x1x1xf16>
  func.return %y : tensor<1x8x1x1xf16>
}

// -----

// A row that fits stays whole.
// CHECK-LABEL: func.func @main(%x: tensor<4x16000xf32>
// CHECK-NEXT: graph.softmax
// CHECK-NEXT: func.return
func.func @main(%x: tensor<4x16000xf32>) -> tensor<4x16000xf32> {
  %y = graph.softmax %x {axis = -1} : (tensor<4x16000xf32>) -> tensor<4x16000xf32>
  func.return %y : tensor<4x16000xf32>
}
