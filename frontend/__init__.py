"""Models to `graph` and `graph` to models."""

if __name__ != "ge.frontend":
    raise ImportError("import ge.frontend, not frontend: two copies of one class are never equal")
