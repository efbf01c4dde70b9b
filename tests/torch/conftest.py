"""These tests need PyTorch: `make test TORCH=1`. Without it they are left out, which make says."""

from importlib.util import find_spec

if find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
