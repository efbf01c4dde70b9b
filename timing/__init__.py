"""The clock: unit queues, flags, limiters, and what each instruction costs on a target."""

if __name__ != "ge.timing":
    raise ImportError("import ge.timing, not timing: two copies of one class are never equal")
