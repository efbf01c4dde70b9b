// RUN: ge-opt %s -p plan-arena | filecheck %s
// RUN: ge-opt %s -p "plan-arena{reuse=false}" | filecheck %s --check-prefix KEEP

// Three intermediates of 512 bytes in a chain: the third takes the place of the first.
// CHECK: attributes {arena = #ge.ints<1024, 1024, 1536>}
// KEEP:  attributes {arena = #ge.ints<1536, 1024, 1536>}
npu.program "tiny" cores 2 native 1 {
  %x = npu.tensor "input" {label = "x"} : !npu.hbm<[128], [1], f32>
  %a = npu.tensor "temp" : !npu.hbm<[128], [1], f32>
  %b = npu.tensor "temp" : !npu.hbm<[128], [1], f32>
  %c = npu.tensor "temp" : !npu.hbm<[128], [1], f32>
  %y = npu.tensor "output" {label = "y"} : !npu.hbm<[128], [1], f32>
  // CHECK:      npu.tensor "input" {label = "x"}
  // CHECK-NEXT: npu.tensor "temp" {address = 0 : i64}
  // CHECK-NEXT: npu.tensor "temp" {address = 512 : i64}
  // CHECK-NEXT: npu.tensor "temp" {address = 0 : i64}
  // CHECK-NEXT: npu.tensor "output" {label = "y"}
  // KEEP:      npu.tensor "temp" {address = 0 : i64}
  // KEEP-NEXT: npu.tensor "temp" {address = 512 : i64}
  // KEEP-NEXT: npu.tensor "temp" {address = 1024 : i64}
  npu.invoke @k0 %x, %a outs 1 offsets <0, 0> {sources = []} : !npu.hbm<[128], [1], f32>, !npu.hbm<[128], [1], f32>
  npu.invoke @k0 %a, %b outs 1 offsets <0, 0> {sources = []} : !npu.hbm<[128], [1], f32>, !npu.hbm<[128], [1], f32>
  npu.invoke @k0 %b, %c outs 1 offsets <0, 0> {sources = []} : !npu.hbm<[128], [1], f32>, !npu.hbm<[128], [1], f32>
  npu.invoke @k0 %c, %y outs 1 offsets <0, 0> {sources = []} : !npu.hbm<[128], [1], f32>, !npu.hbm<[128], [1], f32>
}
