// RUN: ge-opt %s -p turn-halves --split-input-file | filecheck %s

// Rotary positions as torch writes them out.
// CHECK-LABEL: @main(%x
// CHECK:      [[A:%.*]] = graph.slice %x {starts = [0], ends = [2]
// CHECK-NEXT: [[B:%.*]] = graph.slice %x {starts = [2], ends = [9]
// CHECK-NEXT: [[C1:%.*]] = graph.slice %c {starts = [0], ends = [2], axes = [0]
// CHECK-NEXT: [[C2:%.*]] = graph.slice %c {starts = [2], ends = [4], axes = [0]
// CHECK-NEXT: [[S1:%.*]] = graph.slice %s {starts = [0], ends = [2], axes = [1]
// CHECK-NEXT: [[S2:%.*]] = graph.slice %s {starts = [2], ends = [4], axes = [1]
// CHECK-NEXT: [[AC:%.*]] = graph.mul [[A]], [[C1]]
// CHECK-NEXT: [[BS:%.*]] = graph.mul [[B]], [[S1]]
// CHECK-NEXT: [[LOW:%.*]] = graph.sub [[AC]], [[BS]]
// CHECK-NEXT: [[BC:%.*]] = graph.mul [[B]], [[C2]]
// CHECK-NEXT: [[AS:%.*]] = graph.mul [[A]], [[S2]]
// CHECK-NEXT: [[HIGH:%.*]] = graph.add [[BC]], [[AS]]
// CHECK-NEXT: [[Y:%.*]] = graph.concat [[LOW]], [[HIGH]] {axis = 1
// CHECK-NEXT: func.return [[Y]]
func.func @main(%x: tensor<3x4xf32>, %c: tensor<4xf32>, %s: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.mul %x, %c : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %1 = graph.slice %x {starts = [0], ends = [2], axes = [1], steps = [1]} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %2 = graph.slice %x {starts = [2], ends = [9], axes = [1], steps = [1]} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %3 = graph.neg %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.concat %3, %1 {axis = -1} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %5 = graph.mul %4, %s : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  %6 = graph.add %5, %0 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %6 : tensor<3x4xf32>
}

// -----

// The first part of rows turns; its cosine is one for all.
// CHECK-LABEL: @main(%w
// CHECK:     [[LOW:%.*]] = graph.sub
// CHECK:     [[HIGH:%.*]] = graph.add
// CHECK:     graph.concat [[LOW]], [[HIGH]] {axis = 1
// CHECK-NOT: graph.neg
func.func @main(%w: tensor<3x6xf32>, %c: tensor<1xf32>, %s: tensor<4xf32>) -> tensor<3x4xf32> {
  %x = graph.slice %w {starts = [0], ends = [4], axes = [1], steps = [1]} : (tensor<3x6xf32>) -> tensor<3x4xf32>
  %0 = graph.mul %c, %x : (tensor<1xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = graph.slice %w {starts = [0], ends = [2], axes = [1], steps = [1]} : (tensor<3x6xf32>) -> tensor<3x2xf32>
  %2 = graph.slice %x {starts = [2], ends = [4], axes = [1], steps = [1]} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %3 = graph.neg %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.concat %3, %1 {axis = 1} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %5 = graph.mul %4, %s : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %6 = graph.add %0, %5 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %6 : tensor<3x4xf32>
}

// -----

// These are not the halves in turn: they stay.
// CHECK-LABEL: @main(%x
// CHECK: graph.neg
// CHECK: graph.concat
// CHECK: graph.mul
func.func @main(%x: tensor<3x4xf32>, %c: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = graph.mul %x, %c : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %1 = graph.slice %x {starts = [0], ends = [2], axes = [1], steps = [1]} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %2 = graph.slice %x {starts = [1], ends = [3], axes = [1], steps = [1]} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %3 = graph.neg %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.concat %3, %1 {axis = 1} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %5 = graph.mul %4, %c : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %6 = graph.add %0, %5 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %6 : tensor<3x4xf32>
}
