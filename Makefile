# make demo   sets everything up and shows the sample memory in Datasette (SERVE=0: without serving)
# make test   sets everything up and passes the tests; make slow and make load pass those that take long
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SERVE ?= 1
PORT ?= 8001
JOBS ?= 3
SLOW ?= slow
SIZES ?= 117659 1000000
PEERS ?=

.PHONY: demo test slow load bench bench-scale lint docs screenshots translations clean

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "datasette-limbic needs Python 3.10 or newer: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

demo: $(VENV)/.installed
	@mkdir -p demo-data
	$(BIN)/datasette limbic demo demo-data/memory.db
ifeq ($(SERVE),1)
	@echo
	@echo "Open http://127.0.0.1:$(PORT)/memory/-/limbic   (Ctrl+C stops)"
	$(BIN)/datasette demo-data/memory.db --metadata metadata.yml --port $(PORT)
endif

test: $(VENV)/.tested
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not slow"

# what takes more than a few seconds each
slow: $(VENV)/.tested
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "$(SLOW)"

# minutes of a server under load, and of processes killed at any moment
load: $(VENV)/.tested
	$(BIN)/python -m pytest -n 2 --dist loadgroup --load -m load \
	  $$(grep -rl --include='test_*.py' 'mark\.load' tests)

bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks

# real texts beside other ways to find vectors: a minute for SIZES=2000 PEERS=numpy,approximate, half an
# hour and 4 GB of disk for SIZES=117659, longer and 20 GB for a million. Needs Debian's package
# wordnet-base, and downloads packages of documentation
SCALE = $(BIN)/python -m benchmarks.scale bench-data $(SIZES:%=--size %) $(if $(PEERS),--peers $(PEERS))
bench-scale: $(VENV)/.installed
	@absent=$$($(SCALE) --absent) && if [ -n "$$absent" ]; then \
	  echo "Installing other ways to find vectors, to compare with: $$absent" && \
	  $(BIN)/python -m pip install --quiet --group bench; fi
	$(SCALE)

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.tested
	$(BIN)/cog -r docs/*.md

# the pictures of README and docs, from the sample memory; needs Chromium. Look at each before committing
screenshots: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --group screenshots
	$(BIN)/python docs/screenshots.py

# the catalogues of the pages' strings, in step with the code; names what has no translation yet
translations: $(VENV)/.tested
	$(BIN)/python tests/translations.py

clean:
	rm -rf $(VENV) demo-data build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
