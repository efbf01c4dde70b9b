// RUN: not ge-opt %s --split-input-file 2>&1 | filecheck %s

func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = graph.if @then @else(%c, %x) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
// CHECK: :4:3: error: graph.if: 'then' must be a function of the module, there is none

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = graph.if @f @f(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
// CHECK: :12:3: error: graph.if: its condition must be tensor<i1>

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%c: tensor<i1>, %x: tensor<3xf32>) -> tensor<4xf32> {
  %r = graph.if @f @f(%c, %x) : (tensor<i1>, tensor<3xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
// CHECK: :23:3: error: graph.if: 'f' must take tensor<3xf32>, got tensor<4xf32>

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = graph.loop @f(%x) {carried = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
// CHECK: :34:3: error: graph.loop: 'trips' must be given, or a condition alone

// -----

func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %s: tensor<3x4xf32>) -> tensor<4xf32> {
  %r = graph.loop @f(%x, %s) {carried = 1 : i64, trips = 2 : i64, slices = #ge.ints<1>} : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
// CHECK: :45:3: error: graph.loop: slices and rows must have 2 places, got tensor<3x4xf32>
