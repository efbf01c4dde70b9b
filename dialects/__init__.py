"""What programs are made of: the dialects `graph`, `fused` and `npu`. No passes, no files."""

if __name__ != "ge.dialects":
    raise ImportError("import ge.dialects, not dialects: two copies of one class are never equal")
