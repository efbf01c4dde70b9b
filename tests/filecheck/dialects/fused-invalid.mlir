// RUN: not ge-opt %s --split-input-file 2>&1 | filecheck %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fused.elementwise "Relu"(%x) attributes {sources = []} {
  ^bb0(%1: tensor<4xf32>, %2: tensor<4xf32>):
    fused.yield %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK: fused-invalid.mlir:4:3: error: fused.elementwise: its region must take 1 values, got 2

// -----

func.func @main(%x: tensor<2x4xf32>, %y: tensor<3x4xf32>) -> tensor<6x4xf32> {
  %0 = fused.concat "Concat"(%x, %y) attributes {sources = [], axis = 0 : i64} {
  ^bb0(%1: tensor<2x4xf32>, %2: tensor<3x4xf32>):
    fused.yield %1 : tensor<2x4xf32>
  } : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  func.return %0 : tensor<6x4xf32>
}
// CHECK: :15:3: error: fused.concat: must give tensor<5x4xf32>, got tensor<6x4xf32>

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = fused.elementwise "Relu"(%x) attributes {sources = []} {
  ^bb0(%1: tensor<4xf32>):
    fused.yield %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<5xf32>
  func.return %0 : tensor<5xf32>
}
// CHECK: :26:3: error: fused.elementwise: must give tensor<4xf32>, got tensor<5xf32>

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fused.elementwise "Relu"(%x) attributes {sources = []} {
  ^bb0(%1: tensor<4xf32>):
    %2 = graph.relu %1 : (tensor<4xf32>) -> tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK: :37:3: error: Operation graph.relu terminates block in single-block region but is not a terminator

// -----

func.func @main(%x: tensor<2x2xf32>) -> tensor<f32> {
  %0 = fused.host "Det"(%x) attributes {sources = []} {
  ^bb0(%1: tensor<2x2xf32>):
    %2 = graph.relu %1 : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %3 = graph.det %2 : (tensor<2x2xf32>) -> tensor<f32>
    fused.yield %3 : tensor<f32>
  } : (tensor<2x2xf32>) -> tensor<f32>
  func.return %0 : tensor<f32>
}
// CHECK: :48:3: error: fused.host: its region must be one operator and fused.yield

// -----

func.func @main(%x: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = fused.host "Det"(%x) attributes {sources = []} {
  ^bb0(%1: tensor<2x2xf32>):
    %2 = graph.det %1 : (tensor<2x2xf32>) -> tensor<f32>
    fused.yield %2 : tensor<f32>
  } : (tensor<2x2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
// CHECK: :61:3: error: fused.host: the types must be those of its operator

// -----

func.func @main(%x: tensor<9x20xf32>, %i: tensor<2xi32>, %u: tensor<1x20xf32>) -> tensor<9x20xf32> {
  %0 = fused.scatter "ScatterND"(%x, %i, %u) attributes {sources = [], axis = 0 : i64, by = #ge.ints<0>} {
  ^bb0(%1: tensor<1x20xf32>):
    fused.yield %1 : tensor<1x20xf32>
  } : (tensor<9x20xf32>, tensor<2xi32>, tensor<1x20xf32>) -> tensor<9x20xf32>
  func.return %0 : tensor<9x20xf32>
}
// CHECK: fused.scatter: must have an index for each place along 'by'

// -----

func.func @main(%x: tensor<9x20xf32>, %i: tensor<1xi32>, %u: tensor<1x21xf32>) -> tensor<9x20xf32> {
  %0 = fused.scatter "ScatterND"(%x, %i, %u) attributes {sources = [], axis = 0 : i64, by = #ge.ints<0>} {
  ^bb0(%1: tensor<1x21xf32>):
    fused.yield %1 : tensor<1x21xf32>
  } : (tensor<9x20xf32>, tensor<1xi32>, tensor<1x21xf32>) -> tensor<9x20xf32>
  func.return %0 : tensor<9x20xf32>
}
// CHECK: fused.scatter: must put in slices along axis 0
