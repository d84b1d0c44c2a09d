# The two main commands are `make report` and `make test`; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
STUDY ?= quick
# Images of containers like to set it; then every process compiles every module that it imports: seconds each time.
unexport PYTHONDONTWRITEBYTECODE
# One more than there are processors: some tests wait for real disks and clocks.
WORKERS = $$(($$(nproc) + 1))
RUN = PATH="$$PWD/.uv/bin:$$PATH" uv run --locked --quiet

help:  ## list what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install what is missing: Debian packages (apt) and the Python environment (uv.lock)
	@scripts/setup

# In the place of the study's own labs, device profiles and file systems.
OVERRIDE = $(if $(LAB),lab='$(LAB)') $(if $(PROFILE),profile='$(PROFILE)') $(if $(WHERE),where='$(WHERE)') $(if $(CLIENTS),clients='$(CLIENTS)')

report: setup  ## run a study and render report/STUDY/index.html and report.pdf (STUDY=quick; LAB=, PROFILE=, WHERE=, CLIENTS=: elsewhere than its file says; STRICT=1: fail on a changed verdict)
	@[ -z "$(STRICT)" ] || [ -z "$(strip $(OVERRIDE))" ] || \
		{ echo "STRICT=1 holds a study against its own verdicts: leave it out beside LAB, PROFILE and WHERE." >&2; exit 2; }
	@scripts/run-study --config study=$(STUDY) $(OVERRIDE)
	@[ -z "$(STRICT)" ] || $(RUN) reprofs claims $(STUDY) --strict

test: setup  ## every check and every test but those of soak
	@$(MAKE) --no-print-directory --jobs 3 lint guest-base guest-net
	@$(RUN) pytest -n $(WORKERS) --dist loadgroup tests

soak: setup  ## the tests that take too long for every change; before a release
	@$(RUN) --group slurm pytest -n $(WORKERS) --dist loadgroup -m soak tests

lint:
	@$(RUN) ruff check --quiet
	@$(RUN) ruff format --check --quiet
	@$(RUN) lint-imports --no-cache --no-logo > /dev/null || $(RUN) lint-imports --no-cache --no-logo
	@$(RUN) mypy > /dev/null || $(RUN) mypy
	@$(RUN) snakefmt --check Snakefile workflow
	@$(RUN) snakemake --lint
	@$(RUN) clang-format --dry-run --Werror scripts/engine/*.[ch] scripts/guest/*.c
	@shellcheck scripts/setup scripts/run-study scripts/guest/init scripts/guest/*.sh .ci/run
	@$(RUN) nbstripout --verify notebooks/*.ipynb

guest-%:
	@$(RUN) reprofs guest --output data/guest/$*.json

bench: setup  ## the engine against a bare loop; a trial step by step (AGAINST=COMMIT: beside that commit); the statistics; large studies
	@$(RUN) python tests/bench_engine.py
	@$(RUN) python tests/bench_trial.py
	@$(RUN) python tests/bench_inference.py
	@$(RUN) python tests/bench_scale.py

readme: setup  ## write README's tables of studies and workloads from their files
	@$(RUN) python scripts/readme.py

lab: setup  ## open the notebooks in JupyterLab
	@$(RUN) jupyter lab --LabApp.default_url=/lab/tree/notebooks $$([ $$(id -u) -ne 0 ] || echo --allow-root)

clean:  ## remove what a run made (records, tables, reports); the guest's cache stays
	rm -rf data/plan data/raw data/guest data/tables data/results data/rounds report/*/ logs .snakemake

.PHONY: help setup report test soak lint bench lab clean
