// RUN: not ge-opt %s --split-input-file 2>&1 | filecheck %s

func.func @main(%x: tensor<2x4xf32>, %y: tensor<3xf32>) -> tensor<2x4xf32> {
  %a = graph.add %x, %y : (tensor<2x4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  func.return %a : tensor<2x4xf32>
}
// CHECK: graph-invalid.mlir:4:3: error: graph.add: operands must broadcast, got tensor<2x4xf32> and tensor<3xf32>
// CHECK-NEXT: %a = graph.add %x, %y
// CHECK-NEXT: ^

// -----

func.func @main(%x: tensor<2x4xf32>, %y: tensor<4xf16>) -> tensor<2x4xf32> {
  %a = graph.add %x, %y : (tensor<2x4xf32>, tensor<4xf16>) -> tensor<2x4xf32>
  func.return %a : tensor<2x4xf32>
}
// CHECK: :14:3: error: graph.add: operands must have one element type, got f32 and f16

// -----

func.func @main(%x: tensor<2x4xf32>) -> tensor<4xf32> {
  %a = graph.relu %x : (tensor<2x4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
// CHECK: :22:3: error: graph.relu: result must be tensor<2x4xf32>, got tensor<4xf32>

// -----

func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %a = graph.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %a : tensor<?x4xf32>
}
// CHECK: :30:3: error: operand 'x' at position 0 does not verify:

// -----

func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = graph.gelu %x {approximate = sigmoid} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %a : tensor<2x4xf32>
}
// CHECK: :38:37: error: 'none' or 'tanh' expected

// -----

func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = graph.cast %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %a : tensor<2x4xf32>
}
// CHECK: :46:19: error: graph.cast needs the attribute 'to'

// -----

func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %b = graph.relu %a : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = graph.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %b : tensor<2x4xf32>
}
// CHECK: :54:3: error: graph.relu: an operand must be defined before it is read

// -----

func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %c = graph.constant <"0x0000803F"> : tensor<2xf32>
  func.return %x : tensor<2x4xf32>
}
// CHECK: :63:3: error: graph.constant: tensor<2xf32> must have 8 bytes, got 4
