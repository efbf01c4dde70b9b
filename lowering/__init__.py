"""Dialect to dialect: one pass a file, and the only list of passes."""

if __name__ != "ge.lowering":
    raise ImportError("import ge.lowering, not lowering: two copies of one class are never equal")
