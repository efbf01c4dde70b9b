// Rows cut into pieces, the largest element of each: `fused` level, for kernels.py.
builtin.module {
  func.func @main(%x: tensor<HEIGHTxWIDTHxf16>) -> tensor<REPEATSxHEIGHTxPIECESxf16> attributes {input_names = ["x"], output_names = ["y"]} {
    %0 = fused.view %x <0> strides <0, WIDTH, COLUMNS, 1> : tensor<HEIGHTxWIDTHxf16> -> tensor<REPEATSxHEIGHTxPIECESxCOLUMNSxf16>
    %1 = fused.rowwise "Maximum"(%0) attributes {sources = ["maximum"]} {
    ^bb0(%2: tensor<REPEATSxHEIGHTxPIECESxCOLUMNSxf16>):
      %3 = graph.reduce_max %2 {axes = [3], keepdims = false} : (tensor<REPEATSxHEIGHTxPIECESxCOLUMNSxf16>) -> tensor<REPEATSxHEIGHTxPIECESxf16>
      fused.yield %3 : tensor<REPEATSxHEIGHTxPIECESxf16>
    } : (tensor<REPEATSxHEIGHTxPIECESxCOLUMNSxf16>) -> tensor<REPEATSxHEIGHTxPIECESxf16>
    func.return %1 : tensor<REPEATSxHEIGHTxPIECESxf16>
  }
}
