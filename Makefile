# The front door. Everything happens in .venv, which the first target makes.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.lading-installed
# The first Python that is new enough; `make PYTHON=/path/to/python` takes another one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: install demo test browser check acceptance soak orchestrators site screenshots simulate bench docs format clean

install: $(STAMP)

# pip learnt --group in 25.1; a pip that is new enough is left as it is.
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "lading needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[spark,s3,postgres,formats,ui]' --group dev
	@touch $(STAMP)

# A table that stays true to its files, in two minutes.
demo: install
	$(BIN)/python scripts/demo.py

# Three processes, each with a Spark of its own: on two cores, two of them often wait. `make test WORKERS=0` for one,
# with a debugger.
WORKERS ?= 3
test: install browser
	$(BIN)/python -m pytest tests --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# The page is tested in chromium. As root on Debian it is installed; elsewhere those tests say what is missing.
browser:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
		&& command -v chromedriver >/dev/null \
		|| if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
				apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; \
		else \
			echo "no chromium and chromedriver here: the tests of the page in a browser are skipped"; \
		fi

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/gen_docs.py --check

# One line an id: the id, pass or fail, its tests.
acceptance: install
	$(BIN)/python scripts/acceptance.py

# Histories of many processes at once, each from a seed, on a clock, disks and buckets with faults:
#   make simulate MINUTES=10                    as many as fit, on all cores
#   make simulate STORY=pointing SEED=42        one, told step by step; STEPS=500 stops it there
#   make simulate MUTANTS=1                     each deliberate defect, and how soon it is found
#   make simulate REGRESSIONS=1                 each history that ever failed
simulate: install
	PYTHONPATH=tests $(BIN)/python -m simulation $(if $(STORY),--story $(STORY)) $(if $(SEED),--seed $(SEED)) \
		$(if $(STEPS),--steps $(STEPS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(MUTANTS),--mutants) \
		$(if $(REGRESSIONS),--regressions) $(if $(CASE),--case $(CASE))

# The property test for a long time, and a Spark cluster that loses a worker.
soak: install orchestrators
	$(BIN)/python -m pip install --quiet --upgrade --no-deps --target .engines --group engines
	$(BIN)/python -m pip install --quiet --upgrade --no-deps --target .sail --group sail
	@test -x .localstack/bin/python || ! command -v python3.13 >/dev/null || { python3.13 -m venv .localstack && \
		.localstack/bin/python -m pip install --quiet 'localstack-core[runtime]==4.14.*' 'cbor2<6' 'pyopenssl<25' \
		service_identity; }
	PYTHONPATH=.engines LADING_SOAK=1 $(BIN)/python -m pytest tests/properties tests/simulation tests/iceberg \
		tests/ui/test_catalog.py tests/cluster tests/docs/test_tutorial.py -q

# Dagster and Airflow, which docs/dagster.md and docs/airflow.md are run with, in an environment of their own.
ORCHESTRATORS := .venv-orchestrators
ORCHESTRATORS_STAMP := $(ORCHESTRATORS)/.lading-installed

$(ORCHESTRATORS_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "lading needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@$(ORCHESTRATORS)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(ORCHESTRATORS)
	$(ORCHESTRATORS)/bin/python -m pip install --quiet 'pip>=25.1'
	$(ORCHESTRATORS)/bin/python -m pip install --quiet --editable . --group orchestrators
	@touch $(ORCHESTRATORS_STAMP)

# Their own warnings are not ours.
orchestrators: $(ORCHESTRATORS_STAMP)
	$(ORCHESTRATORS)/bin/python -m pytest -W default tests/docs/test_orchestrators.py -q

# The docs as a site, in site/; `python3 -m http.server -d site` shows it. Nothing is fetched from elsewhere, and search
# works without a network (opened as files, pages have no search: browsers allow them no workers).
SITE_STAMP := .venv-site/.lading-installed

$(SITE_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "lading needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@.venv-site/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet 'pip>=25.1'
	.venv-site/bin/python -m pip install --quiet --group site
	@touch $(SITE_STAMP)

site: $(SITE_STAMP)
	.venv-site/bin/python scripts/site.py

# The pictures in docs/pictures/, taken of `lading ui` by chromium (Debian: apt-get install chromium chromium-driver).
screenshots: install
	$(BIN)/python scripts/screenshots.py

# Beside the peers, in an environment of its own. `make bench JOB=plan SIZE=100k` runs one job at one size,
# `QUICK=1` takes small sizes and leaves bench/results.json alone.
BENCH_STAMP := .venv-bench/.lading-installed

$(BENCH_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "lading needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@.venv-bench/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet 'pip>=25.1'
	.venv-bench/bin/python -m pip install --quiet --editable '.[spark,s3,watch]' --group bench
	@touch $(BENCH_STAMP)

bench: $(BENCH_STAMP)
	.venv-bench/bin/python -m bench $(if $(JOB),--job $(JOB)) $(if $(SIZE),--size $(SIZE)) \
		$(if $(QUICK),--level quick)

# Write the generated pages and format the code.
docs: install
	$(BIN)/python scripts/gen_docs.py

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .engines .sail .localstack .site-docs .site-docs.yml site bench/.data demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +
