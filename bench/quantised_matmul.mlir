// Integer product, scales by column and by row, GELU, stored as f16: `fused` level, for kernels.py.
builtin.module {
  func.func @main(%a: tensor<MxKxi8>, %b: tensor<NxKxi8>, %s: tensor<Nxf32>, %t: tensor<Mx1xf32>) -> tensor<MxNxf16> attributes {input_names = ["a", "b", "s", "t"], output_names = ["y"]} {
    %0 = fused.view %b <0> strides <1, K> : tensor<NxKxi8> -> tensor<KxNxi8>
    %1 = fused.matmul "MatMul"(%a, %0, %s, %t) attributes {sources = ["product"]} {
    ^bb0(%2: tensor<MxNxi32>, %3: tensor<Nxf32>, %4: tensor<Mx1xf32>):
      %5 = graph.cast %2 {to = f32} : (tensor<MxNxi32>) -> tensor<MxNxf32>
      %6 = graph.mul %5, %3 : (tensor<MxNxf32>, tensor<Nxf32>) -> tensor<MxNxf32>
      %7 = graph.mul %6, %4 : (tensor<MxNxf32>, tensor<Mx1xf32>) -> tensor<MxNxf32>
      %8 = graph.gelu %7 {approximate = tanh} : (tensor<MxNxf32>) -> tensor<MxNxf32>
      %9 = graph.cast %8 {to = f16} : (tensor<MxNxf32>) -> tensor<MxNxf16>
      fused.yield %9 : tensor<MxNxf16>
    } : (tensor<MxKxi8>, tensor<KxNxi8>, tensor<Nxf32>, tensor<Mx1xf32>) -> tensor<MxNxf16>
    func.return %1 : tensor<MxNxf16>
  }
}
