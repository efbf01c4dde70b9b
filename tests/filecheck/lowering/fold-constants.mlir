// RUN: ge-opt %s -p fold-constants | filecheck %s

func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = graph.constant <"0x0000803F00000040"> : tensor<2xf32>
  %b = graph.neg %a {source = "n"} : (tensor<2xf32>) -> tensor<2xf32>
  %c = graph.add %x, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK:      %b = graph.constant <"0x000080BF000000C0"> {source = "n"} : tensor<2xf32>
  // CHECK-NEXT: %c = graph.add %x, %b

  // One operand is not known: it stays.
  %d = graph.mul %x, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %d = graph.mul %x, %b

  // Larger than its operands and than a mebibyte: it stays, the weights would only grow.
  %e = graph.constant <"0x0000803F"> : tensor<f32>
  %f = graph.expand %e {shape = [1024, 1024]} : (tensor<f32>) -> tensor<1024x1024xf32>
  // CHECK-NEXT: %e = graph.constant
  // CHECK-NEXT: %f = graph.expand %e

  // Truth values are folded up to 16 times that: what a mask hides may be left out.
  %g = graph.constant <"0x01"> : tensor<i1>
  %h = graph.expand %g {shape = [1024, 2048]} : (tensor<i1>) -> tensor<1024x2048xi1>
  // CHECK: %h = graph.constant
  func.return %c, %d : tensor<2xf32>, tensor<2xf32>
}
