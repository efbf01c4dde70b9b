"""From object files to numbers and cycles."""

if __name__ != "ge.runtime":
    raise ImportError("import ge.runtime, not runtime: two copies of one class are never equal")
