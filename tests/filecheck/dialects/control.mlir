// RUN: ge-opt %s | filecheck %s
// RUN: ge-opt %s | ge-opt | filecheck %s

func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %s: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %r = graph.if @then @else(%c, %x) {source = "if"} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %h, %y = graph.loop @step(%r, %x, %s) {carried = 1 : i64, trips = 3 : i64, slices = #ge.ints<-1>, rows = #ge.ints<1>} : (tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
  %on, %z = graph.loop @until(%c, %h) {carried = 2 : i64, conditional} : (tensor<i1>, tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>)
  func.return %y : tensor<3x4xf32>
}
// CHECK:      graph.if @then @else(%c, %x) {source = "if"} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: graph.loop @step(%r, %x, %s) {carried = 1 : i64, trips = 3 : i64, slices = #ge.ints<-1>, rows = #ge.ints<1>} : (tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
// CHECK-NEXT: graph.loop @until(%c, %h) {carried = 2 : i64, conditional} : (tensor<i1>, tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>)

func.func @then(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

func.func @else(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

func.func @step(%h: tensor<4xf32>, %w: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.mul %h, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.add %a, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

func.func @until(%on: tensor<i1>, %h: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
  %a = graph.exp %h : (tensor<4xf32>) -> tensor<4xf32>
  func.return %on, %a : tensor<i1>, tensor<4xf32>
}
