// RUN: ge-opt %s -p decompose-operators --split-input-file | filecheck %s

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<2x3xf32>) -> (tensor<4x9xf32>, tensor<4x6xf32>) {
  %0 = graph.tile %x {repeats = [2, 3], source = "tile"} : (tensor<2x3xf32>) -> tensor<4x9xf32>
  // CHECK-NEXT: %[[A:.*]] = graph.reshape %x {shape = [1, 2, 1, 1, 3, 1], source = "tile"}
  // CHECK-NEXT: %[[B:.*]] = graph.expand %[[A]] {shape = [2, 2, 1, 3, 3, 1], source = "tile"}
  // CHECK-NEXT: graph.reshape %[[B]] {shape = [4, 9], source = "tile"}
  %1 = graph.resize %x {scales = [2.0, 2.0]} : (tensor<2x3xf32>) -> tensor<4x6xf32>
  // CHECK: graph.expand %{{.*}} {shape = [1, 2, 2, 1, 3, 1]}
  // CHECK: graph.expand %{{.*}} {shape = [1, 4, 1, 1, 3, 2]}
  func.return %0, %1 : tensor<4x9xf32>, tensor<4x6xf32>
}

// -----

// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x4x2x2xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<1x4x2x2xf32> {
  %0 = graph.group_norm %x, %s, %b {num_groups = 2} : (tensor<1x4x2x2xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x2x2xf32>
  // CHECK: %[[ROWS:.*]] = graph.reshape %x {shape = [1, 2, 2, 4]}
  // CHECK: %[[NORM:.*]] = graph.layer_norm %[[ROWS]], %{{.*}} {axis = 2}
  // CHECK: graph.mul %[[NORM]]
  // CHECK: graph.add
  func.return %0 : tensor<1x4x2x2xf32>
}

// -----

// A convolution for each place between two steps, and their results woven into each other.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x1x2xf32>) -> tensor<1x1x5xf32> {
  %w = graph.constant <"0x0000803F0000004000004040"> : tensor<1x1x3xf32>
  %0 = graph.conv_transpose %x, %w {strides = [2]} : (tensor<1x1x2xf32>, tensor<1x1x3xf32>) -> tensor<1x1x5xf32>
  // CHECK: %[[W:.*]] = graph.constant <"0x000040400000803F0000000000000040"> : tensor<2x1x2xf32>
  // CHECK: %[[PHASES:.*]] = graph.conv %x, %[[W]] {pads = [1, 1]} : {{.*}} -> tensor<1x2x3xf32>
  // CHECK: %[[APART:.*]] = graph.reshape %[[PHASES]] {shape = [1, 1, 2, 3]}
  // CHECK: %[[TURNED:.*]] = graph.transpose %[[APART]] {perm = [0, 1, 3, 2]}
  // CHECK: %[[WOVEN:.*]] = graph.reshape %[[TURNED]] {shape = [1, 1, 6]}
  // CHECK: graph.slice %[[WOVEN]] {starts = [0], ends = [5]
  func.return %0 : tensor<1x1x5xf32>
}

// -----

// Few runs of even steps are views side by side, many are gathered.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<4xf32>, %y: tensor<40xf32>) -> (tensor<8xf32>, tensor<40xf32>) {
  %0 = graph.pad %x {mode = edge, pads = [2, 2]} : (tensor<4xf32>) -> tensor<8xf32>
  // CHECK-COUNT-3: graph.gather %x
  // CHECK: graph.concat
  %1 = graph.slice %y {axes = [0], ends = [-41], starts = [-1], steps = [-1]} : (tensor<40xf32>) -> tensor<40xf32>
  // CHECK: graph.gather %y
  // CHECK-NOT: graph.concat
  func.return %0, %1 : tensor<8xf32>, tensor<40xf32>
}

// -----

// A long run among many short ones stays a view, those are gathered together.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<100xf32>) -> tensor<120xf32> {
  // CHECK: %[[LONG:.*]] = graph.gather %x, {{.*}} -> tensor<100xf32>
  // CHECK: %[[TURNED:.*]] = graph.gather %x, {{.*}} -> tensor<20xf32>
  // CHECK: graph.concat %[[LONG]], %[[TURNED]] {axis = 0}
  %0 = graph.pad %x {mode = reflect, pads = [0, 20]} : (tensor<100xf32>) -> tensor<120xf32>
  func.return %0 : tensor<120xf32>
}

// -----

// Weights that are computed when the model runs are turned then: from the last place to the first.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x1x2xf32>, %w: tensor<1x1x3xf32>) -> tensor<1x1x4xf32> {
  %0 = graph.conv_transpose %x, %w : (tensor<1x1x2xf32>, tensor<1x1x3xf32>) -> tensor<1x1x4xf32>
  // CHECK: %[[LAST:.*]] = graph.gather
  // CHECK: %[[MIDDLE:.*]] = graph.gather
  // CHECK: %[[FIRST:.*]] = graph.gather
  // CHECK: %[[TURNED:.*]] = graph.concat %[[LAST]], %[[MIDDLE]], %[[FIRST]] {axis = 2}
  // CHECK: graph.conv %x, %[[TURNED]] {pads = [2, 2]
  func.return %0 : tensor<1x1x4xf32>
}

// -----

// What has a kernel stays.
// CHECK-LABEL: @main(%x
func.func @main(%x: tensor<1x1x2xf32>) -> tensor<1x1x4xf32> {
  %0 = graph.pad %x {pads = [0, 0, 1, 0, 0, 1]} : (tensor<1x1x2xf32>) -> tensor<1x1x4xf32>
  // CHECK-NEXT: graph.pad
  // CHECK-NEXT: return
  func.return %0 : tensor<1x1x4xf32>
}
