# Two commands do everything on a fresh machine with python3 >= 3.11 and make: `make crawl` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.from-lock

.PHONY: help env crawl ui test test-thorough check docs screenshots bench corpus peers replayer store lock clean

help:  ## what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

env: $(STAMP)  ## the environment in .venv, from the lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crawl needs Python 3.11 or newer, found " + sys.version.split()[0] + "; set PYTHON=/path/to/python3")'
	@echo "installing what requirements.lock pins into $(VENV): a minute or two, once"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock:  ## pin every dependency with its hashes
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras --group dev pyproject.toml -o requirements.lock

crawl: env  ## the main job: crawl a web of real pages on loopback through Dagster, and report
	@$(BIN)/crawl demo --folder demo-lake

ui: env  ## Dagster's UI on the demo's lake
	@test -e demo-lake/demo.json || $(MAKE) --no-print-directory crawl
	@$(BIN)/crawl --lake demo-lake/lake ui

test: env  ## all tests
	@# in their own order: files with few tests are the slowest here, and would come last on one core
	@$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

test-thorough: env  ## all tests, and those that gain by trying more often try much more often
	@CRAWL_TESTS=thorough $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

check: env  ## format, lint, types, import contract, docs
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m docs.generate --check

screenshots: env  ## the pictures in docs/ (Dagster's UI, status page, report), made by the tests in a browser
	@CRAWL_TESTS_TAKE_PICTURES=1 $(BIN)/python -m pytest -q tests/browser/test_dagit.py
	@CRAWL_TESTS_TAKE_PICTURES=1 $(BIN)/python -m pytest -q tests/live/test_pictures.py

docs: env  ## write the generated pages of docs/
	@$(BIN)/python -m docs.generate

bench: env  ## every bench, one after the other
	@for bench in $(BENCHES); do $(BIN)/python -m bench.$$bench || exit 1; done

BENCHES := crawl fetch recall recrawl order dagster_share page fetch_parsers frontier hot_host neardup traps bodies constants modules sql

corpus:  ## Debian's documentation and nginx, which bench.recall and bench.crawl serve (needs root)
	@bench/corpus.sh

peers:  ## other crawlers, in an environment of their own, for bench.crawl and bench.fetch
	@test .peers/.from-list -nt bench/peers.txt || { $(PYTHON) -m venv .peers && .peers/bin/python -m pip install --quiet --disable-pip-version-check -r bench/peers.txt && touch .peers/.from-list; }

replayer:  ## pywb, in an environment of its own, for the test that replays a WARC export
	@test .pywb/.from-list -nt tests/pywb.txt || { $(PYTHON) -m venv .pywb && .pywb/bin/python -m pip install --quiet --disable-pip-version-check -r tests/pywb.txt && touch .pywb/.from-list; }

store:  ## SeaweedFS, an S3 server, in an environment of its own, for the tests of a lake in S3
	@test .store/.from-list -nt tests/store.txt || { $(PYTHON) -m venv .store && .store/bin/python -m pip install --quiet --disable-pip-version-check -r tests/store.txt && touch .store/.from-list; }

clean:  ## remove what was made, the environment included
	rm -rf $(VENV) .peers .pywb .store demo-lake build *.egg-info
