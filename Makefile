# Every target explains itself: make help
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -q -n 3 --dist loadgroup

.PHONY: help setup demo test test-all check format golden bench docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## install what is missing: C compiler, Java 17+, .venv with every development extra
	@bash scripts/setup.sh

demo: setup ## see views stay fresh: a short guided run in this terminal
	@.venv/bin/viewlet demo

test: setup ## the whole test suite except the long fuzzing (8 to 10 minutes on 2 cores)
	$(PYTEST) -m "not slow"

test-all: setup ## the whole test suite with the long fuzzing, every program compiled as it is shipped or with traps
	VIEWLET_CFLAGS= $(PYTEST)

check: setup ## format, lint, strict types and the fast tests (under a minute)
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTEST) -m "not slow and not spark and not native" tests/laws tests/golden tests/test_smoke.py tests/test_layering.py

format: setup ## rewrite the sources in the project's format
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

golden: setup ## rewrite the golden files from today's output; read the diff before committing
	$(PYTEST) tests/golden tests/test_docs.py --update

bench: setup ## run every benchmark suite; benchmarks/results/README.md lists what they wrote
	.venv/bin/viewlet bench all

docs: setup ## build the documentation as a site in build/site, after running every example in it
	$(PYTHON) docs/generated.py
	$(PYTHON) -m pytest -q tests/test_docs.py tests/test_site.py
	$(PYTHON) docs/site.py

clean: ## remove caches and the virtual environment
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build dist
