# Every target sets up what it needs: a .venv in this tree, from Python 3.11+ alone.
# `uv` is used when it is on the PATH; a second run starts at once.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCK   := requirements-dev.lock
READY  := $(VENV)/.ready
RUN_READY := $(VENV)/.run-ready
BENCH_READY := $(VENV)/.bench-ready
SOAK_SECONDS ?= 900
# One more than there are cores: the tests of Spark and of processes wait for others most of the time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# How packages get into the .venv, with `uv` or without.
INSTALL := $(shell command -v uv >/dev/null 2>&1 && echo "uv pip install --quiet --python $(BIN)/python" || echo "$(BIN)/python -m pip install --quiet --disable-pip-version-check")
# Where `make lock` finds uv if it is not on the PATH.
LOCKER := $(VENV)/lock

.PHONY: help run test check lock soak replay bench bench-net bench-spark clean
.DEFAULT_GOAL := help

help:            ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Tidings needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	@if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --allow-existing --python $(PYTHON) $(VENV); \
	else \
	    $(PYTHON) -m venv $(VENV); \
	fi

# What `make run` needs: the package and nothing of the tests.
$(RUN_READY): pyproject.toml | $(VENV)/bin/python
	@$(INSTALL) -e .
	@touch $@

# What everything else needs: exactly what the lock says, checked by its hashes.
$(READY): pyproject.toml $(LOCK) | $(VENV)/bin/python
	@$(INSTALL) --require-hashes -r $(LOCK)
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $(RUN_READY) $@

# Clients of other services, which only benchmarks need.
$(BENCH_READY): $(READY)
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["bench"], sep="\n")' > $@.txt
	@$(INSTALL) -r $@.txt
	@touch $@

run: $(RUN_READY)  ## a live demonstration: a broker, publishers, a filtered subscription
	@$(BIN)/tidings demo

test: check      ## the whole quick suite: style, types, imports, tests
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not soak"

check: $(READY)  ## style, types and the import table
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

soak: $(READY)   ## thousands of seeds and fuzzing, for SOAK_SECONDS (default 900)
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -q -n auto -m soak

replay: $(READY) ## run one random scenario again and print all that happened: make replay SEED=123
	$(BIN)/python -m tidings.sim replay $(SEED)

bench: $(READY)  ## ratios against a peer in the same run
	$(BIN)/python -m bench

bench-spark: $(READY)  ## Spark against DuckDB, polars, pyarrow and itself over JSON, and the audit; FULL=--full takes 10 million
	$(BIN)/python -m bench $(FULL) spark spark_audit

bench-net: $(BENCH_READY)  ## server and client against their peers on loopback
	$(BIN)/python -m bench.net

lock:            ## choose the versions of the tests' environment anew where pyproject.toml asks for it; UPGRADE=--upgrade: all
	@command -v uv >/dev/null 2>&1 || test -x $(LOCKER)/bin/uv || \
	    { $(PYTHON) -m venv $(LOCKER) && $(LOCKER)/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	@PATH="$$PATH:$(LOCKER)/bin" uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(UPGRADE) --group dev pyproject.toml -o $(LOCK)

clean:           ## remove everything that the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
