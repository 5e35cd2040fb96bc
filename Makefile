# Everything runs in .venv, made from constraints.txt the first time it is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench faults format clean

demo: $(VENV)/.core  ## from nothing to tracked keypoints, a report and a labelled clip (about five minutes)
	$(BIN)/transporter demo

test: $(VENV)/.dev  ## every test
	sh tools/system-packages
	sh tools/fault-tests $(BIN)/python
	$(BIN)/python -m pytest -n auto --dist loadfile --ignore tests/faults

check: $(VENV)/.dev  ## lint, format, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

MINUTES ?=
faults: $(VENV)/.dev  ## the whole fault suite: table and figures in results/faults (under an hour on two cores)
	sh tools/faults $(BIN)/python $(MINUTES)

bench: $(VENV)/.dev  ## speed on a CPU, each stage against its plain version (under five minutes)
	$(BIN)/python benchmarks/cpu.py --out results/speed/cpu.json

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo
