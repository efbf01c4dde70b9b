"""Small programs for tests of the machine: a body of instructions, the rest written around it."""

from ge.codegen.parse_asm import parse_asm
from ge.dialects.npu.program import Program

END = "\n halt"


def machine_program(
    body: str, target: str = "tiny", cores: int = 1, header: str = ".arena 65536"
) -> Program:
    """`body` as the function `main`; more functions may follow its `halt`."""
    end = "" if "halt" in body else END
    return parse_asm(
        f".target {target}, cores={cores}\n{header}\n.function main\nmain:\n{body}{end}\n"
    )
