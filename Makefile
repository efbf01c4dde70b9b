PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?=
ARGS ?=

ready := $(VENV)/ready
ready_torch := $(VENV)/ready-torch
needs := $(ready) $(if $(TORCH),$(ready_torch))

.PHONY: help run test check docs llama3 conformance clean
.DEFAULT_GOAL := help

help:
	@echo "make run            set up .venv, compile and run the main example, print the report"
	@echo "make test           set up .venv, run all tests (ARGS=... goes to pytest)"
	@echo "make test TORCH=1   the same, with torch and the tests that need it"
	@echo "make check          format, lint, types, fresh docs, sizes, direction of imports"
	@echo "make docs           write the pages that are made from tables"
	@echo "make llama3         Llama-3 at full size: tables, and a page in build/llama3 (ARGS=...)"
	@echo "make conformance    run the backend suite of onnx, write docs/conformance.md"
	@echo "make clean          remove .venv and caches"

run: $(ready)
	@$(BIN)/python examples/run.py

test: $(needs)
	@$(BIN)/python -c "import importlib.util as u; u.find_spec('torch') or \
	print('torch is not installed: its tests are left out (make test TORCH=1 installs it)')"
	@$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(ready)
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run ruff format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python docs/generate.py --check
	@$(BIN)/python -m pytest -n 0 tests/repository
	@echo "all checks pass"

docs: $(ready)
	@$(BIN)/python docs/generate.py

llama3: $(ready)
	@mkdir -p build/llama3
	@$(BIN)/python -m examples.llama3 --json build/llama3/figures.json \
	--html build/llama3/index.html --trace build/llama3/layer.trace.json $(ARGS)

conformance: $(ready)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.conformance -v $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache src/*.egg-info

$(ready): pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and \
	'Python 3.11 or newer must be there, got %s: try make PYTHON=...' % sys.version.split()[0])"
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@touch $@

$(ready_torch): $(ready)
	@echo "installing torch"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[torch-test]'
	@touch $@
