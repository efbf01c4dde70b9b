// RUN: not ge-opt %s --split-input-file 2>&1 | filecheck %s

npu.function @main {
  npu.vadds ub[0x0], l1[0x0], 1.5, size=[4], ds=[1], sa=[1], f16
}
// CHECK: npu-invalid.mlir:4:12: error: 'a' of 'vadds' must be an address ub[0..0xffffffff], got l1[0x0]

// -----

npu.function @main {
  npu.li x1
}
// CHECK: :11:9: error: 'value' of 'li' must be an integer of 64 bits

// -----

npu.program "tiny" cores 2 native 1 {
  %0 = npu.buffer "x" <"2*m+"> : !npu.buffer<ub, f16>
}
// CHECK: :18:24: error: '2*m+' must be a sum like 2*y+ky-1

// -----

npu.program "tiny" cores 2 native 1 {
  %0 = npu.buffer "x" <"m"> : !npu.buffer<l3, f16>
}
// CHECK: error: must be a memory and an element type, got l3, f16

// -----

npu.program "tiny" cores 1 native 1 {
  npu.routine @r0 "%y0 = graph.relu %x0 : (tensor<4xf32>) -> tensor<4xf32>"
}
// CHECK: npu.routine: 'graph.relu' must be an operator that the AI CPU computes
