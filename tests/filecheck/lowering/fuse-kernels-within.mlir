// RUN: ge-opt %s -p "graph-to-fused,fuse-kernels{within=true}" | filecheck %s

// What one operator was written as is one kernel; it counts as no fusion.
// CHECK-NOT: fusion_hits
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.mul %x, %y {source = "one"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %0, %y {source = "one"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.relu %1 {source = "other"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: fused.elementwise {{.*}} attributes {sources = ["one"]}
  // CHECK: graph.mul
  // CHECK-NEXT: graph.add
  // CHECK-NEXT: fused.yield
  // CHECK: fused.elementwise "Relu"{{.*}} attributes {sources = ["other"]}
  func.return %2 : tensor<4xf32>
}
