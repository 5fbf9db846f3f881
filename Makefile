# Every target sets itself up: a virtual environment in .venv, the packages of pyproject.toml, nothing else.
#   make demo     a crash shown and survived            make test     lint, types, all tests, the notebooks
#   make nightly  the long forms of the tests           make bench    figures, no pass or fail
# Another Python than python3: PYTHON=python3.12 make test. With torch as well: TORCH=torch make test
# A part of the figures: SPEED="--small --workloads d,e --systems plain,durable_nb" make bench

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# One recipe at a time: the tests use the cores of a small machine already.
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make
WORKERS ?= 2
# Arguments of tests/benchmarks/speed.py. Empty: everything at full size, which takes hours, 20 GB of memory, 40 of disk.
SPEED ?=
# What to install torch as. Empty: it is not installed (it may be several GB), and its tests are skipped and say so.
TORCH ?=
PYTEST := $(BIN)/python -m pytest
# Tests of one file share fixtures, so a file stays in one worker; which files begin, tests/conftest.py says.
SPREAD := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SHORT := -m "not nightly"
DIRS = $(wildcard $(addprefix tests/,$(1)))
FIND_PYTHON = for p in "$${PYTHON:-}" python3 python3.13 python3.12 python3.11; do \
	  if [ -n "$$p" ] && "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$$p"; exit 0; fi; \
	done; echo "durable_nb needs Python 3.11 or newer: PYTHON=/path/to/python make …" >&2; exit 1

.PHONY: help demo test lint types torch unit property faults kernel compat cases zoo notebooks bench nightly clean

help:
	@sed -n '2,6s/^# \{0,1\}//p' Makefile

$(STAMPS)/venv:
	@mkdir -p $(STAMPS)
	[ -x $(BIN)/python ] || "$$($(FIND_PYTHON))" -m venv $(VENV)
	@touch $@

$(STAMPS)/demo: $(STAMPS)/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[notebooks]'
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

torch: $(STAMPS)/dev
	@[ -z "$(TORCH)" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" || \
	  echo "!!! $(TORCH) could NOT be installed; tests that need torch are skipped" >&2

demo: $(STAMPS)/demo
	$(BIN)/durable-nb demo notebooks/quickstart.ipynb

test: lint types torch
	$(PYTEST) $(SHORT) $(SPREAD) --ignore=tests/benchmarks tests
	$(MAKE) notebooks

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/interrogate --quiet tests

types: $(STAMPS)/dev
	$(BIN)/mypy

unit: torch
	$(PYTEST) $(SHORT) $(SPREAD) $(call DIRS,unit contract)

property faults compat kernel cases zoo: torch
	$(PYTEST) $(SHORT) $(SPREAD) $(call DIRS,$@)

# Each notebook gets data of its own in a fresh folder; otherwise a second run would continue the first and skip.
notebooks: $(STAMPS)/dev
	for notebook in notebooks/*.ipynb; do \
	  data=$$(mktemp -d); \
	  DURABLE_NB_DIR="$$data/durable" DURABLE_NB_KEY_FILE="$$data/key" \
	    $(PYTEST) -p no:xdist --nbval --nbval-sanitize-with notebooks/sanitize.cfg "$$notebook"; \
	  rm -rf "$$data"; \
	done

bench: torch
	$(BIN)/python tests/benchmarks/run.py
	$(BIN)/python tests/benchmarks/speed.py --machine --environments $(STAMPS) $(SPEED)
	$(BIN)/python tests/benchmarks/fidelity.py

nightly: lint types torch
	$(PYTEST) -m "" --timeout 3600 --ignore=tests/benchmarks tests
	$(MAKE) notebooks

clean:
	rm -rf $(VENV) $(STAMPS) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
