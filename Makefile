# Everything happens inside .venv; each target sets up what it needs on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CONSTRAINTS := constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo install test lint types docs golden test-slow test-search test-browser attack bench clean

help:
	@echo "make demo          set up, then solve the bundled example log and write demo-run/"
	@echo "make install       editable softrobust[all] with the development tools, in .venv"
	@echo "make test          ruff, mypy and the tests of every change"
	@echo "make docs          the documentation, in docs/_build (warnings are errors)"
	@echo "make test-slow     the long tests"
	@echo "make test-search   the tests of properties, on new random examples every time"
	@echo "make golden        write the words of pages and screens anew (then read the diff)"
	@echo "make test-browser  the report in headless Chromium (installs it with apt-get)"
	@echo "make attack        an hour of attempts to break what is promised, with new seeds"
	@echo "make bench         benchmarks, as ratios against named rivals"

# A stamp per set of packages: set-up runs once, and again when what is asked for changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) install --constraint $(CONSTRAINTS) --editable .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) install --constraint $(CONSTRAINTS) --editable '.[all,dev]'
	@touch $@ $(VENV)/core.stamp

install: $(VENV)/dev.stamp

demo: $(VENV)/core.stamp
	$(BIN)/softrobust solve examples/pest_log.csv --gamma 0.9 --out demo-run --force

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

docs: $(VENV)/dev.stamp
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build

test: lint types docs
	$(BIN)/pytest -n 2 --dist loadfile

golden: $(VENV)/dev.stamp
	GOLDEN=write $(BIN)/pytest tests/test_golden.py

test-slow: $(VENV)/dev.stamp
	$(BIN)/pytest -m slow

test-search: $(VENV)/dev.stamp
	grep -rl "from hypothesis import" tests --include='test_*.py' | \
	  HYPOTHESIS_PROFILE=search xargs $(BIN)/pytest -n 2 --dist loadfile

test-browser: $(VENV)/dev.stamp
	command -v chromium >/dev/null || (apt-get update && apt-get install --yes chromium)
	$(BIN)/pytest -m browser

attack: $(VENV)/dev.stamp
	$(BIN)/python -m tests.attack --minutes 60 --workers 2 --docs docs/attack.md

bench: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo-run docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
