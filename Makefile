# Everything below sets itself up in an environment of its own (.venv) and leaves the system's Python alone.
#
#   make quickstart   train polynomial networks on handwritten digits, and write a report
#   make demo         draw a digit in the browser and have it classified encrypted (needs npm)
#   make test         lint, format, types, tests, doctests
#   make verify       the heavier tests; those of new users in a fresh environment that pip fills
#   make test-all     the tests with every supported Python that is there (nox), and with the lowest versions
#   make lint         lint, format, types
#   make docs         the documentation with a reference, as web pages in docs/_build/html
#   make clean        remove the environment and all caches
#
# PYTHON    which Python (3.11 or later) to make the environment with
# PIP_ARGS  further arguments for pip, for example where to find torch (see CONTRIBUTING.md)

PYTHON ?= python3
PIP_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# the first run needs less than the tests do
FOR_TRAINING := $(VENV)/.installed-train
FOR_DEMO := $(VENV)/.installed-train,serve
FOR_TESTS := $(VENV)/.installed-dev
FOR_DOCS := $(VENV)/.installed-docs
# one thread for each of the two workers: more only get in each other's way
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: quickstart demo test test-all verify lint docs clean
.DEFAULT_GOAL := test

quickstart: $(FOR_TRAINING)
	$(BIN)/pinets quickstart

demo: $(FOR_DEMO)
	$(BIN)/python -m pinets.encrypted.service.wasm
	$(BIN)/pinets encrypt serve mnist_ccp4

test: lint
	$(PYTEST) -m "not slow"

test-all: $(FOR_TESTS)
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) nox
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m nox

verify: $(FOR_TESTS)
	PINETS_FRESH=1 $(PYTEST) -m slow

lint: $(FOR_TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(FOR_DOCS)
	rm -rf docs/_reference  # pages of packages that are no more
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --builder html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

$(VENV)/.installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pinets needs Python 3.11 or later; name one, as in: make PYTHON=python3.12")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist docs/_build docs/_reference docs/gallery
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
