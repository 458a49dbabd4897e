# `make run` and `make test` work on a bare machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.PHONY: run test lint format types imports bench model docs setup clean

setup: $(READY)

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fabriclens needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

run: setup ## replay a bundled trace in a loop; metrics and API on 127.0.0.1:9400
	$(BIN)/fabriclens run --config replay_data/demo.toml

test: setup
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

CAPTURES ?= ../shared/captures
model: setup ## rebuild the bundled model from the labelled captures
	$(BIN)/fabriclens train $(CAPTURES)/*/ --out classifier/bundled

docs: setup ## regenerate the generated pages
	$(BIN)/python -m exporters.catalogue > docs/metrics.md
	$(BIN)/fabriclens check --sample > docs/fabriclens.toml

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
