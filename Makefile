# Every target sets up what it needs: a virtual environment in .venv with the pinned packages of
# constraints.txt. It is made once, and again only when pyproject.toml or constraints.txt change.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test test-all check coverage audit bench docs studies clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (a minute or two, once) ..."
	@$(PYTHON) -c 'import sys; sys.exit("reconet needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[data,export,serve,dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/reconet train scenes/reconet --out runs/demo --resume
	@$(BIN)/reconet evaluate runs/demo --scales 0.75,1,1.25 --flip
	@$(BIN)/reconet explain runs/demo val:3 > /dev/null
	@$(BIN)/reconet report runs/demo > /dev/null
	@echo "Open runs/demo/report.html in a browser; what the attention does: runs/demo/explain/val-000003/explain.html; the pictures alone: runs/demo/predictions.png; the curves live: $(BIN)/tensorboard --logdir runs/demo"

# One test opens a report in a browser. As root on Debian, as in a container of continuous integration,
# it is installed; elsewhere that test says that there is none.
BROWSER := $(VENV)/.browser
$(BROWSER): $(READY)
	@command -v chromedriver > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && \
	  echo "Installing chromium for the browser test ..." && apt-get update -qq > /dev/null 2>&1 && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium chromium-driver > /dev/null 2>&1; } || true
	@touch $@

test: $(READY) $(BROWSER)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(READY) $(BROWSER)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_layers.py tests/test_docs.py

# Directory by directory, so that each part can be run again by itself: make coverage PARTS=tests/data
PARTS ?= tests/data tests/models tests/engine tests/faults tests/fuzz tests/test_*.py
coverage: $(READY) $(BROWSER)
	@rm -f .coverage
	@for part in $(PARTS); do OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow" --cov reconet \
	  --cov-append --cov-report= $$part || exit 1; done
	@$(BIN)/coverage report --skip-covered --show-missing --fail-under 90

# Known holes in the packages that we pin. A mirror of packages is not enough: the advisories are asked
# for first, since pip-audit would else find nothing, and call that a success.
ADVISORIES := https://pypi.org/pypi/pip/24.0/json
audit: $(READY)
	@$(BIN)/python -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=20)' $(ADVISORIES) 2> /dev/null || \
	  { echo "make audit: offline ($(ADVISORIES) cannot be read); nothing was checked."; exit 1; }
	@$(BIN)/pip-audit --skip-editable --progress-spinner off

bench: $(READY)
	@$(BIN)/reconet bench module
	@$(BIN)/reconet bench data

docs: $(READY)
	@$(BIN)/python docs/make_contexts.py
	@$(BIN)/python -m docs.make_scale

# An hour on two cores the first time; then only the page and its figures are made anew.
studies: $(READY)
	@for study in components rank contexts attention; do $(BIN)/reconet study $$study --quick || exit 1; done
	@$(BIN)/python -m docs.make_studies

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
