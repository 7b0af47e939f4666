# Every target first sets up .venv with the pinned packages of constraints.txt. This happens once,
# and again only when pyproject.toml or constraints.txt change.
#
#   make help       print this list
#   make setup      .venv alone; `source .venv/bin/activate` to use it
#   make demo       segment a photograph, then train on generated images: about 10 minutes
#   make test       the tests, without the slow ones
#   make test-all   all tests
#   make check      ruff, mypy, import direction, documentation
#   make test-peers beside timm, smp, torchvision and transformers: several GB in .venv-peers
#   make coverage   the lines that no test runs
#   make soak       train, predict and serve with kills and hostile clients: MINUTES=30
#   make audit      known holes in the pinned packages
#   make lock       requirements.lock: the pinned packages with their hashes
#   make bench      the figures of speed in docs/speed.md: half an hour
#   make docs       the generated parts of docs/
#   make studies    the tables in docs/studies/, from the studies in runs/
#   make clean      remove .venv and caches
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test test-all test-peers check coverage soak audit lock bench docs studies clean

setup: $(READY)

help:
	@sed -n 's/^#   //p' Makefile

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (a minute or two, once) ..."
	@$(PYTHON) -c 'import sys; sys.exit("reconet needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[backbones,data,export,serve,dev]'
	@touch $@

PHOTO = $$($(BIN)/python -c 'import matplotlib; print(matplotlib.get_data_path())')/sample_data/grace_hopper.jpg

demo: $(READY)
	@echo "A photograph first, then a training: about 10 minutes on two cores. Ctrl-C stops, make demo goes on."
	@$(BIN)/reconet predict voc12 "$(PHOTO)" --out runs/photo --overwrite
	@$(BIN)/reconet train scenes/reconet --out runs/demo --resume
	@$(BIN)/reconet evaluate runs/demo
	@$(BIN)/reconet explain runs/demo val:3 > /dev/null
	@$(BIN)/reconet report runs/demo > /dev/null
	@echo "The photograph with its classes:  runs/photo/grace_hopper.overlay.jpg"
	@echo "The training, in a browser:       runs/demo/report.html"
	@echo "What its attention does:          runs/demo/explain/val-000003/explain.html"
	@echo "Your own images, in a browser:    $(BIN)/reconet serve voc12"

# Some tests open pages in a browser. As root on Debian, as in a container of continuous integration,
# chromium is installed for them. Elsewhere, those tests are skipped if there is none.
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

# torchvision needs another build of torch than .venv has. It runs on the CPU too.
PEERS := .venv-peers
$(PEERS)/.ready: pyproject.toml
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/pip install --quiet --disable-pip-version-check torch torchvision segmentation-models-pytorch \
	  pytest pytest-timeout --editable '.[backbones,timm,data]'
	@touch $@

test-peers: $(PEERS)/.ready
	@OMP_NUM_THREADS=1 $(PEERS)/bin/python -m pytest tests/peers

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_layers.py tests/test_house.py tests/test_docs.py

coverage: $(READY) $(BROWSER)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow" --cov reconet --cov-report term-missing:skip-covered \
	  --cov-fail-under 90

MINUTES ?= 30
soak: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --minutes $(MINUTES)

lock: $(READY)
	@$(BIN)/python -m tools.make_lock

# Without a network, or with only a mirror of packages, pip-audit can read no advisories and finds
# nothing. So we first ask it for a hole that everybody knows.
audit: $(READY)
	@echo "jinja2==2.4.1" > $(VENV)/known-hole.txt
	@$(BIN)/pip-audit --no-deps --disable-pip --requirement $(VENV)/known-hole.txt --format json 2> /dev/null | \
	  grep -q '"id"' || { echo "make audit: offline, advisories cannot be read; nothing was checked."; exit 1; }
	@$(BIN)/pip-audit --skip-editable --progress-spinner off

bench: $(READY)
	@$(BIN)/python -m benchmarks.all

docs: $(READY)
	@for page in backbones contexts datasets scale tour; do \
	  $(BIN)/python -m tools.make_$$page && echo "written: docs/$$page.md" || exit 1; done

# The tables and figures in docs/studies/, from their results and the studies in runs/.
studies: $(READY)
	@$(BIN)/python -m tools.make_studies

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
