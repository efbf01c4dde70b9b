"""The NPU instruction set.

Each function of this package is the whole truth about one instruction: its name is the mnemonic,
its parameters are the operands in assembly and encoding order, its docstring is the manual entry
and its body is the semantics. The dialect op, assembler, encoder, simulator and docs/isa.md derive
from it. Language and encoding are this project's own: the vendor publishes none.
"""

from __future__ import annotations

from ge.dialects.npu.instr import INSTRS as INSTRS
from ge.dialects.npu.isa import cube as cube
from ge.dialects.npu.isa import host as host
from ge.dialects.npu.isa import move as move
from ge.dialects.npu.isa import scalar as scalar
from ge.dialects.npu.isa import sync as sync
from ge.dialects.npu.isa import vector as vector

BY_OPCODE = {row.opcode: row for row in INSTRS.values()}
