"""Command-line tools: argument parsing and calls, nothing else."""

if __name__ != "ge.tools":
    raise ImportError("import ge.tools, not tools: two copies of one class are never equal")
