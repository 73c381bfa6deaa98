# Every target sets up what it needs: a .venv in this tree, from Python 3.11+ alone.
# `uv` is used when it is on the PATH; a second run starts at once.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCK   := requirements-dev.lock
READY  := $(VENV)/.ready
RUN_READY := $(VENV)/.run-ready
BENCH_READY := $(VENV)/.bench-ready
NATIVE := $(VENV)/.native
SOAK_SECONDS ?= 900
SOAK_FAULTS ?= 0
# Two more than there are cores: the tests of Spark and of processes wait for others most of the time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 2)')

# The demonstration and the tests start many processes: let Python keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# How packages get into the .venv, with `uv` or without. Both say what they are doing; of pip's many lines, one for each
# package is shown.
SHELL := bash
.SHELLFLAGS := -o pipefail -ec
UV := $(shell command -v uv 2>/dev/null)
PIP := -m pip install --disable-pip-version-check --no-input --progress-bar off
PIP_SAYS := (?:Collecting|Processing) (?:.*/)?(\w[\w.-]*?)(?:-\d|[^\w.-]|$$)|\s*(Installing \w+ \w+): (?!finished)
PROGRESS := $(PYTHON) -uc 'import re, sys; any(print("  " + m[m.lastindex]) for m in (re.match(r"$(PIP_SAYS)", line) for line in sys.stdin) if m)'
INSTALL := $(if $(UV),uv pip install --python $(BIN)/python,pip_install() { $(BIN)/python $(PIP) "$$@" | $(PROGRESS); }; pip_install)
# Tools that are no part of the environment: uv for `make lock` where it is not on the PATH, and what makes a release.
LOCKER := $(VENV)/lock
RELEASER := $(VENV)/release

.PHONY: help run test check lock release notebook soak fuzz-native replay mutate bench bench-net bench-spark clean
.DEFAULT_GOAL := help

help:            ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Tidings needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV), which is done once:"
	@$(if $(UV),uv venv --quiet --allow-existing --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))

# What `make run` needs: the package and nothing of the tests.
$(RUN_READY): pyproject.toml | $(VENV)/bin/python
	@echo "Installing Tidings and the packages that it runs on (60 MB, without Spark and the tests) ..."
	@$(INSTALL) -e .
	@touch $@

# The compiled engine, again whenever its sources have changed; without a compiler it says so, and Python does the work.
$(NATIVE): $(wildcard src/tidings/_native/*.cpp src/tidings/_native/*.hpp) src/tidings/_native/build.py | $(VENV)/bin/python
	@$(BIN)/python src/tidings/_native/build.py
	@touch $@

# What everything else needs: exactly what the lock says, checked by its hashes.
$(READY): pyproject.toml $(LOCK) | $(VENV)/bin/python
	@echo "Installing what the tests need: Spark, a Java for it, linters (1.4 GB; some minutes, once) ..."
	@$(INSTALL) --require-hashes -r $(LOCK)
	@echo "Installing Tidings itself ..."
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $(RUN_READY) $@

# The packages of a dependency group of pyproject.toml.
GROUP = $(PYTHON) -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")'

# Clients of other services, which only benchmarks need.
$(BENCH_READY): $(READY)
	@$(GROUP) bench > $@.txt
	@$(INSTALL) -r $@.txt
	@touch $@

run: $(RUN_READY) $(NATIVE)  ## a demonstration, in one terminal and one minute; SCENE=history plays one scene
	@$(BIN)/tidings demo $(if $(SCENE),--scene $(SCENE))

test: check      ## the whole quick suite: style, types, imports, tests
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not soak"

check: $(READY) $(NATIVE)  ## style, types and the import table
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

soak: $(READY) $(NATIVE)   ## thousands of seeds and fuzzing, for SOAK_SECONDS (default 900)
	SOAK_SECONDS=$(SOAK_SECONDS) SOAK_FAULTS=$(SOAK_FAULTS) $(BIN)/python -m pytest -q -n auto -m soak

fuzz-native: $(READY)  ## odd bodies for the compiled engine under sanitizers, for FUZZ_SECONDS (default 600)
	$(BIN)/python src/tidings/_native/build.py --sanitize $(VENV)/sanitized
	LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
	    PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 $(BIN)/python -m bench.fuzz_native $(VENV)/sanitized $(or $(FUZZ_SECONDS),600)

replay: $(READY) ## run one random scenario again and print all that happened: make replay SEED=123
	$(BIN)/python -m tidings.sim replay $(SEED)

bench: $(READY) $(NATIVE)  ## ratios against a peer in the same run
	$(BIN)/python -m bench

bench-spark: $(READY)  ## Spark against DuckDB, polars, pyarrow and itself over JSON, and the audit; FULL=--full takes 10 million
	$(BIN)/python -m bench $(FULL) spark spark_audit

bench-net: $(BENCH_READY) $(NATIVE)  ## server and client against their peers on loopback
	$(BIN)/python -m bench.net

mutate: $(READY) ## break the code in small ways, drawn by SEED, and see which of COUNT changes no test notices
	nice $(BIN)/python -m bench.mutate --seed $(or $(SEED),1) --count $(or $(COUNT),50)

lock:            ## choose the versions of the tests' environment anew where pyproject.toml asks for it; UPGRADE=--upgrade: all
	@command -v uv >/dev/null 2>&1 || test -x $(LOCKER)/bin/uv || \
	    { $(PYTHON) -m venv $(LOCKER) && $(LOCKER)/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	@PATH="$$PATH:$(LOCKER)/bin" uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(UPGRADE) --group dev pyproject.toml -o $(LOCK)

release:         ## build sdist and wheel into dist/, check them, and try them in a clean environment
	@test -x $(RELEASER)/bin/twine || { echo "Installing what builds and checks a release ..."; $(PYTHON) -m venv $(RELEASER) && \
	    $(GROUP) release > $(RELEASER)/packages.txt && $(RELEASER)/bin/python $(PIP) --quiet -r $(RELEASER)/packages.txt; }
	rm -rf dist $(RELEASER)/clean
	$(RELEASER)/bin/python -m build --outdir dist .
	$(RELEASER)/bin/twine check --strict dist/*
	$(PYTHON) -m venv $(RELEASER)/clean
	$(RELEASER)/clean/bin/python $(PIP) --quiet dist/*.whl
	cd $(RELEASER)/clean && bin/tidings --version && bin/tidings demo --fast && bin/python -c 'import tidings.sync, tidings.sim'
	@echo && ls -l dist

notebook: $(READY)  ## open the notebooks, with what they need
	@$(GROUP) notebook > $(VENV)/notebook.txt
	@$(INSTALL) -r $(VENV)/notebook.txt
	$(BIN)/jupyter lab examples/notebooks

clean:           ## remove everything that the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	rm -f src/tidings/_native/_engine*.so
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
