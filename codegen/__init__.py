"""From `npu` to assembly text and object files, and back."""

if __name__ != "ge.codegen":
    raise ImportError("import ge.codegen, not codegen: two copies of one class are never equal")
