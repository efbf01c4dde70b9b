// RUN: ge-opt %s -p graph-to-fused,fuse-kernels --split-input-file | filecheck %s
// RUN: ge-opt %s -p "graph-to-fused,fuse-kernels{off=MatMulRelu,Elementwise}" --split-input-file | filecheck %s --check-prefix OFF

// Bias and activation behind a product.
// OFF:   MatMulRelu = 0
// CHECK: MatMulRelu = 2
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<3x8xf32> {
  %0 = graph.matmul %x, %w {source = "mm"} : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  %1 = graph.add %0, %b {source = "add"} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %2 = graph.relu %1 {source = "relu"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  // CHECK: fused.matmul "MatMulRelu"(%x, %w, %b) attributes {sources = ["mm", "add", "relu"]} {
  // CHECK: graph.add
  // CHECK-NEXT: graph.relu
  // CHECK-NEXT: fused.yield
  // OFF: fused.matmul "MatMul"
  // OFF: fused.elementwise "Add"
  func.return %2 : tensor<3x8xf32>
}

// -----

// An activation, a residual of the result's shape.
// CHECK: Conv2DBatchNorm = 2
func.func @main(%x: tensor<1x4x9x9xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32> {
  %0 = graph.conv %x, %w {source = "conv"} : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.add %x, %0 {source = "add"} : (tensor<1x4x9x9xf32>, tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  %2 = graph.relu %1 {source = "relu"} : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  // CHECK: fused.conv2d "Conv2DBatchNorm"(%x, %w, %x) attributes {sources = ["conv", "add", "relu"]
  func.return %2 : tensor<1x4x9x9xf32>
}

// -----

// Both orders of an addition and a layer norm.
// CHECK: LayerNormAdd = 2
func.func @main(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>, %g: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %0 = graph.add %x, %y : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = graph.layer_norm %0, %g : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  // CHECK: fused.rowwise "LayerNormAdd"(%x, %y, %g)
  // CHECK: graph.add
  // CHECK-NEXT: graph.layer_norm
  %2 = graph.layer_norm %x, %g : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %3 = graph.add %y, %2 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  // CHECK: fused.rowwise "LayerNormAdd"(%x, %g, %y)
  // CHECK: graph.layer_norm
  // CHECK-NEXT: graph.add
  func.return %1, %3 : tensor<3x8xf32>, tensor<3x8xf32>
}

// -----

// Scale, mask and dropout around a softmax.
// CHECK: SoftmaxDropout = 3
func.func @main(%x: tensor<3x8xf32>, %m: tensor<8xf32>) -> tensor<3x8xf32> {
  %half = graph.constant <"0x0000003F"> : tensor<f32>
  %0 = graph.mul %x, %half : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %1 = graph.add %0, %m : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %2 = graph.softmax %1 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = graph.exp %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  // CHECK: fused.rowwise "SoftmaxDropout"(%x, %m)
  func.return %3 : tensor<3x8xf32>
}

// -----

// CHECK: Attention = 1
func.func @main(%q: tensor<2x5x8xf32>, %k: tensor<2x8x7xf32>, %v: tensor<2x7x4xf32>) -> tensor<2x5x4xf32> {
  %half = graph.constant <"0x0000003F"> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<2x5x8xf32>, tensor<2x8x7xf32>) -> tensor<2x5x7xf32>
  %1 = graph.mul %0, %half : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5x7xf32>
  %2 = graph.softmax %1 : (tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %3 = graph.matmul %2, %v : (tensor<2x5x7xf32>, tensor<2x7x4xf32>) -> tensor<2x5x4xf32>
  // CHECK: %[[K:.*]] = fused.view %k <0> strides <56, 1, 7> : tensor<2x8x7xf32> -> tensor<2x7x8xf32>
  // CHECK: fused.attention "Attention"(%q, %[[K]], %v)
  func.return %3 : tensor<2x5x4xf32>
}

// -----

// CHECK: Reduction = 2 : i64, Elementwise = 2 : i64
func.func @main(%x: tensor<3x8xf32>, %p: tensor<1x4x9x9xf32>) -> (tensor<3x1xf32>, tensor<3x8xf32>, tensor<1x4x9x9xf32>) {
  %0 = graph.mul %x, %x : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = graph.reduce_sum %0 {axes = [1]} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %2 = graph.sqrt %1 : (tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: fused.rowwise "ReduceSum"(%x) attributes {sources = ["Mul", "ReduceSum", "Sqrt"]}
  %3 = graph.exp %x : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = graph.neg %3 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  // CHECK: fused.elementwise "Exp"(%x) attributes {sources = ["Exp", "Neg"]}
  %5 = graph.max_pool %p {kernel_shape = [1, 1]} : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  %6 = graph.relu %5 : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  // CHECK: fused.pool "MaxPool"(%p) attributes {sources = ["MaxPool", "Relu"]
  func.return %2, %4, %6 : tensor<3x1xf32>, tensor<3x8xf32>, tensor<1x4x9x9xf32>
}

// -----

// What must stay apart, each with its reason.
// CHECK: MatMulRelu = 0
// CHECK-SAME: "MatMulRelu at 'shared' and 'r0': the value between has another reader"
// CHECK-SAME: "MatMulRelu at 'given' and 'r2': the value between is an output of the model"
// CHECK-SAME: "MatMulRelu at 'grows' and 'r3': the shape grows from (3, 8) to (2, 3, 8)"
// CHECK-SAME: "MatMulRelu at 'seen' and 'r4': the value between is also read through a view"
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x8xf32>, %y: tensor<2x3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<2x3x8xf32>, tensor<3x8xf32>, tensor<24xf32>) {
  %0 = graph.matmul %x, %w {source = "shared"} : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  %1 = graph.relu %0 {source = "r0"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = graph.exp %0 {source = "r1"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = graph.matmul %x, %w {source = "given"} : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  %4 = graph.relu %3 {source = "r2"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = graph.matmul %x, %w {source = "grows"} : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  %6 = graph.add %5, %y {source = "r3"} : (tensor<3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %7 = graph.matmul %x, %w {source = "seen"} : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  %8 = graph.relu %7 {source = "r4"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = graph.reshape %7 {shape = [24]} : (tensor<3x8xf32>) -> tensor<24xf32>
  %10 = graph.exp %9 {source = "r5"} : (tensor<24xf32>) -> tensor<24xf32>
  func.return %1, %2, %3, %4, %6, %8, %10 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<2x3x8xf32>, tensor<3x8xf32>, tensor<24xf32>
}

// -----

// The scores are an output; the softmax is not over the keys.
// CHECK: Attention = 0
// CHECK-SAME: "Attention at 's0' and 'pv0': the score tensor is an output of the model"
// CHECK-SAME: "Attention at 's1' and 'pv1': the softmax must be over the keys and come last"
func.func @main(%q: tensor<5x8xf32>, %k: tensor<8x7xf32>, %v: tensor<7x4xf32>) -> (tensor<5x4xf32>, tensor<5x7xf32>, tensor<5x4xf32>) {
  %0 = graph.matmul %q, %k {source = "qk0"} : (tensor<5x8xf32>, tensor<8x7xf32>) -> tensor<5x7xf32>
  %1 = graph.softmax %0 {source = "s0"} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %2 = graph.matmul %1, %v {source = "pv0"} : (tensor<5x7xf32>, tensor<7x4xf32>) -> tensor<5x4xf32>
  %3 = graph.matmul %q, %k {source = "qk1"} : (tensor<5x8xf32>, tensor<8x7xf32>) -> tensor<5x7xf32>
  %4 = graph.softmax %3 {axis = 0, source = "s1"} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %5 = graph.matmul %4, %v {source = "pv1"} : (tensor<5x7xf32>, tensor<7x4xf32>) -> tensor<5x4xf32>
  func.return %2, %0, %5 : tensor<5x4xf32>, tensor<5x7xf32>, tensor<5x4xf32>
}

// -----

// Halves that stand side by side are one kernel, which loads once what both of them see; a part
// that is an output too is not.
// CHECK: Join = 1
// CHECK-SAME: "Join at 'e' and 'c1': the value between is an output of the model"
// CHECK: fused.join "Join"(%x, %y) attributes {sources = ["a", "b", "c0"], axis = 1 : i64}
// CHECK: fused.yield %{{.*}}, %{{.*}} : tensor<2x4xf32>, tensor<2x4xf32>
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> (tensor<2x8xf32>, tensor<2x4xf32>, tensor<2x8xf32>) {
  %0 = graph.mul %x, %y {source = "a"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = graph.sub %x, %y {source = "b"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.concat %0, %1 {axis = 1, source = "c0"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %3 = graph.exp %x {source = "d"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.exp %y {source = "e"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = graph.concat %3, %4 {axis = 1, source = "c1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  func.return %2, %4, %5 : tensor<2x8xf32>, tensor<2x4xf32>, tensor<2x8xf32>
}
