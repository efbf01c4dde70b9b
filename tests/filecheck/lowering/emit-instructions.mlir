// RUN: ge-opt %s -p emit-instructions --split-input-file | filecheck %s

// 9 tiles of 460 elements, the last one shorter, dealt to two cores; two copies in turn.
npu.program "tiny" cores 2 native 1 {
  %x = npu.tensor "input" {label = "x"} : !npu.hbm<[4000], [1], f32>
  %a = npu.tensor "temp" {address = 512 : i64} : !npu.hbm<[4000], [1], f32>
  npu.kernel @k0 "Exp" attributes {sources = ["exp"], dims = #npu.dims<d = 4000>} {
  ^bb0(%p: !npu.hbm<[4000], [1], f32>, %q: !npu.hbm<[4000], [1], f32>):
    npu.set "v" to "mte2v" base 3 copies 1
    npu.for "block" <d = 460> attributes {cores} {
      %0 = npu.buffer "x_ub" <"d"> {copies = 2 : i64, address = 64 : i64} : !npu.buffer<ub, f32>
      npu.wait "mte2v" to "v" base 1 copies 2
      npu.move %p to %0 {map = #npu.map<"d">} : !npu.hbm<[4000], [1], f32> to !npu.buffer<ub, f32>
      npu.vector "vexp" %0 from %0 : !npu.buffer<ub, f32> from !npu.buffer<ub, f32>
    }
  }
  npu.invoke @k0 %x, %a outs 1 offsets <0, 8> {sources = ["exp"]} : !npu.hbm<[4000], [1], f32>, !npu.hbm<[4000], [1], f32>
  npu.invoke @k0 %a, %a outs 1 offsets <0, 0> {sources = []} : !npu.hbm<[4000], [1], f32>, !npu.hbm<[4000], [1], f32>
}
// CHECK:      npu.core x[[CORE:.*]]
// CHECK-NEXT: npu.set_flag v, mte2v, 3
// CHECK:      npu.loop x{{.*}}, .Lk0_1
// CHECK:      npu.share
// CHECK:      npu.mul x[[AT:.*]], x{{.*}}, 460
// CHECK-NEXT: npu.sub x[[LEFT:.*]], 4000, x[[AT]]
// CHECK-NEXT: npu.min x[[SIZE:.*]], x[[LEFT]], 460
// CHECK-NEXT: npu.mod x[[TURN:.*]], x{{.*}}, 2
// CHECK-NEXT: npu.add x[[FLAG:.*]], x[[TURN]], 1
// CHECK-NEXT: npu.wait_flag mte2v, v, x[[FLAG]]
// CHECK:      npu.mul x[[SLOT:.*]], x[[TURN]], 1856
// CHECK:      npu.ld.ub ub[x[[SLOT]]+0x40], gm[x{{.*}}], size=[x[[SIZE]]], strides=[1], f32
// CHECK-NEXT: npu.vexp ub[x[[SLOT]]+0x40], ub[x[[SLOT]]+0x40], size=[x[[SIZE]]], ds=[1], sa=[1], f32
// CHECK:      npu.label ".Lk0_1"
// CHECK-NEXT: npu.ret

// All cores meet between two calls; an offset of a view is part of the address.
// CHECK:      npu.function @main {
// CHECK-NEXT:   npu.la x0, in0
// CHECK-NEXT:   npu.la x1, arena+0x220
// CHECK-NEXT:   npu.source ["exp"]
// CHECK-NEXT:   npu.call k0
// CHECK-NEXT:   npu.sync.arrive
// CHECK-NEXT:   npu.sync.wait
// CHECK-NEXT:   npu.la x0, arena+0x200
// CHECK-NEXT:   npu.la x1, arena+0x200
// CHECK-NEXT:   npu.source []
// CHECK-NEXT:   npu.call k0
// CHECK-NEXT:   npu.halt

// -----

// The scalar unit reads an index; a negative one counts from behind row 30.
npu.program "tiny" cores 2 native 1 {
  npu.kernel @k0 "Gather" attributes {sources = [], dims = #npu.dims<i = 7, d = 8>} {
  ^bb0(%t: !npu.hbm<[8], [1], f32>, %i: !npu.hbm<[7], [1], i64>):
    npu.for "block" <i = 1, d = 8> attributes {cores} {
      %0 = npu.buffer "t_ub" <"d"> {copies = 1 : i64, address = 0 : i64} : !npu.buffer<ub, f32>
      npu.move %t to %0 at %i {map = #npu.map<"d">, places = #npu.map<"i">, extent = 30 : i64, pitch = 8 : i64} : !npu.hbm<[8], [1], f32> to !npu.buffer<ub, f32> at !npu.hbm<[7], [1], i64>
    }
  }
}
// CHECK:      npu.lds x[[INDEX:.*]], gm[x{{.*}}], i64
// CHECK-NEXT: npu.slt x[[BELOW:.*]], x[[INDEX]], 0
// CHECK-NEXT: npu.mul x[[MORE:.*]], x[[BELOW]], 30
// CHECK-NEXT: npu.add x[[ROW:.*]], x[[INDEX]], x[[MORE]]
// CHECK-NEXT: npu.mul x[[AT:.*]], x[[ROW]], 8
// CHECK-NEXT: npu.mul x[[BYTES:.*]], x[[AT]], 4
// CHECK-NEXT: npu.add x[[SOURCE:.*]], x0, x[[BYTES]]
// CHECK-NEXT: npu.ld.ub ub[0x0], gm[x[[SOURCE]]], size=[8], strides=[1], f32
