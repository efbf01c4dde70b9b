"""Programs made at random: nests of loops with flags, skew, remainders, guards and calls."""

import random
from collections.abc import Callable
from itertools import pairwise

from ge.dialects.npu.program import Program
from tests.machine_programs import machine_program

LOAD = "ld.ub ub[x1], gm[x0], size=[{rows},{width}], strides=[256,1], f16, miss={miss}"
STAGE = "ld.l1 l1[0], gm[x0], size=[{rows},{width}], strides=[256,1], f16, miss={miss}"
FETCH = "ld.l0a l0a[0], l1[0], size=[{rows},{width}], strides=[256,1], f16"
ADD = "vadd ub[x1], ub[x1], ub[x1], size=[{rows},{width}], ds=[256,1], sa=[256,1], sb=[256,1], f16"
STORE = "st.gm gm[x0], ub[x1], size=[{rows},{width}], ds=[256,1], ss=[256,1], f16"
PRODUCT = "mmad l0c[0], l0a[0], l0b[0], m={rows}, n={width}, k=16, init=1, f16"
WORK = {"mte2v": LOAD, "v": ADD, "mte3": STORE, "m": PRODUCT, "mte2": STAGE, "mte1": FETCH}
CHAINS = (("mte2v", "v", "mte3"), ("mte2", "mte1", "m"), ("mte2v", "v"), ("mte2", "mte1"))


class Writer:
    """Writes one program; registers from x10 on are handed out in order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.labels = 0
        self.free = 10

    def label(self) -> str:
        self.labels += 1
        return f".L{self.labels}"

    def register(self) -> str:
        self.free += 1
        return f"x{self.free - 1}"

    def program(self) -> Program:
        rng = self.rng
        cores = rng.choice((1, 1, 2, 3))
        lines = ["la x0, arena", "li x1, 0", "core x2"]
        functions: list[str] = []
        for number in range(rng.randint(1, 3)):
            if rng.random() < 0.4:
                functions += [f"f{number}:", *self.kernel(), "ret"]
                lines += self.calls(number)
            else:
                lines += self.kernel()
            if rng.random() < 0.4:
                lines += ["sync.arrive", *self.work("v", "8", "64"), "sync.wait"]
        body = "\n".join([*lines, "halt", *functions])
        target = rng.choice(("tiny", "ascend910b1", "ascend910a"))
        return machine_program(body, target, 2 if target == "tiny" and cores > 2 else cores)

    def calls(self, number: int) -> list[str]:
        if self.rng.random() < 0.5:
            return [f"call f{number}"] * self.rng.randint(1, 3)
        end = self.label()
        return [
            f"loop {self.rng.randint(1, 6)}, {end}",
            f"call f{number}",
            "add x3, x3, 1",
            f"{end}:",
        ]

    def kernel(self) -> list[str]:
        """A chain of units inside loops, its flags set before and taken out behind."""
        rng = self.rng
        chain, copies = rng.choice(CHAINS), rng.choice((1, 2, 2, 3))
        counter = self.register()
        pairs = list(pairwise(chain))
        flags = [f"set_flag {b}, {a}, {n}" for a, b in pairs for n in range(copies)]
        after = [f"wait_flag {b}, {a}, {n}" for a, b in pairs for n in range(copies)]
        nest = self.nest(rng.randint(1, 3), lambda outer: self.chain(chain, copies, counter, outer))
        return [f"li {counter}, {rng.randint(0, 5)}", *flags, *nest, *after]

    def nest(self, depth: int, inside: Callable[[str], list[str]], outer: str = "") -> list[str]:
        """Loops around what `inside` writes, which is told the innermost counter."""
        rng = self.rng
        if not depth:
            return inside(outer)
        counter, end = self.register(), self.label()
        total, step = rng.randint(1, 100), rng.choice((16, 32, 48, 64))
        trips, size = -(-total // step), self.register()
        if depth == 1 and rng.random() < 0.3:
            trips = rng.choice((50, 70))
        lines = [f"li {counter}, 0"]
        count = str(trips)
        if outer and rng.random() < 0.3:
            count = self.register()
            lines += [f"mod {count}, {outer}, 3", f"add {count}, {count}, {rng.randint(0, 2)}"]
        lines += [f"loop {count}, {end}", f"mul {size}, {counter}, {step}"]
        lines += [f"sub {size}, {total}, {size}", f"min {size}, {size}, {step}"]
        lines += [f"max {size}, {size}, 1"]
        if rng.random() < 0.2:
            lines += ["add x4, x2, 1", f"min x4, x4, {counter}", "max x4, x4, 1", "min x4, x4, 1"]
            lines += ["share n=x4"]
        body = self.nest(depth - 1, inside, size if rng.random() < 0.7 else counter)
        if rng.random() < 0.25:
            body = self.guarded(counter, body)
        if rng.random() < 0.2:
            body += self.work(rng.choice(list(WORK)), size, "16")
        if rng.random() < 0.1:
            body += ["barrier"]
        return [*lines, *body, f"add {counter}, {counter}, 1", f"{end}:"]

    def guarded(self, counter: str, body: list[str]) -> list[str]:
        rng, test, end = self.rng, self.register(), self.label()
        how = rng.choice(
            (f"slt {test}, {counter}, 2", f"sle {test}, 1, {counter}", f"mod {test}, {counter}, 2")
        )
        if rng.random() < 0.5:
            return [how, f"{rng.choice(('bz', 'bnz'))} {test}, {end}", *body, f"{end}:"]
        other = self.label()
        instead = self.work(rng.choice(list(WORK)), "4", "32")
        return [how, f"bz {test}, {other}", *body, f"jump {end}", f"{other}:", *instead, f"{end}:"]

    def chain(self, chain: tuple[str, ...], copies: int, counter: str, size: str) -> list[str]:
        rng, flag = self.rng, self.register()
        lines = [f"mod {flag}, {counter}, {copies}"]
        if rng.random() < 0.3:
            lines += ["and x5, x4, 3", "shl x6, x5, 2", f"xor x6, x6, {counter}"]
        stages = [list(self.stage(chain, at, flag, size)) for at in range(len(chain))]
        if rng.random() < 0.3:
            # A wait may stand before its set.
            stages.reverse()
        for stage in stages:
            lines += stage
        return [*lines, f"add {counter}, {counter}, 1"]

    def stage(self, chain: tuple[str, ...], at: int, flag: str, size: str) -> list[str]:
        unit = chain[at]
        before, behind = chain[at - 1] if at else "", chain[at + 1] if at + 1 < len(chain) else ""
        lines = [f"wait_flag {behind}, {unit}, {flag}"] if behind else []
        lines += [f"wait_flag {before}, {unit}, {flag}"] if before else []
        for _ in range(self.rng.randint(1, 3)):
            lines += self.work(unit, size if self.rng.random() < 0.8 else "8", "64")
        lines += [f"set_flag {unit}, {before}, {flag}"] if before else []
        lines += [f"set_flag {unit}, {behind}, {flag}"] if behind else []
        return lines

    def work(self, unit: str, rows: str, width: str) -> list[str]:
        miss = self.rng.choice((0, 100, 256))
        safe = self.register()
        # Counters may be 0, sizes must not.
        lines = [f"max {safe}, {rows}, 1"]
        return [*lines, WORK[unit].format(rows=safe, width=width, miss=miss)]
