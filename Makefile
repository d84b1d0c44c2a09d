# The two main commands are `make report` and `make test`; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
STUDY ?= quick
# Images of containers like to set it; then every process compiles every module that it imports: seconds each time.
unexport PYTHONDONTWRITEBYTECODE
# Python does not start in a checkout with umlauts in its path where the locale is not UTF-8 (a .pth file has the path).
ifneq ($(shell locale charmap 2> /dev/null),UTF-8)
export LC_ALL := C.UTF-8
endif
# Two more than there are processors: many tests wait for real disks and clocks.
WORKERS = $$(($$(nproc) + 2))
RUN = PATH="$$PWD/.uv/bin:$$PATH" uv run --locked --quiet

help:  ## list what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install what is missing: Debian packages (apt) and the Python environment (uv.lock)
	@scripts/setup

# What a user gives is in the environment of the recipe as it was written, so that nothing of it is executed.
report: override export STUDY := $(value STUDY)
report: override export LAB := $(value LAB)
report: override export PROFILE := $(value PROFILE)
report: override export WHERE := $(value WHERE)
report: override export CLIENTS := $(value CLIENTS)
report: override export BESIDE := $(value BESIDE)
report: override export STRICT := $(value STRICT)
report: override export REUSE := $(value REUSE)
report: setup  ## run a study, render report/STUDY/index.html and report.pdf, print the answer (STUDY=quick; LAB=, PROFILE=, WHERE=, CLIENTS=: run it elsewhere; BESIDE=RUN: compare with a run; REUSE=1: take published trials; STRICT=1: fail on a changed verdict)
	@[ -z "$$STRICT" ] || [ -z "$$LAB$$PROFILE$$WHERE$$CLIENTS" ] || \
		{ echo "STRICT=1 compares with the study's own verdicts: leave it out with LAB, PROFILE, WHERE and CLIENTS." >&2; exit 2; }
	@scripts/run-study --config study="$$STUDY" $${LAB:+lab="$$LAB"} $${PROFILE:+profile="$$PROFILE"} \
		$${WHERE:+where="$$WHERE"} $${CLIENTS:+clients="$$CLIENTS"} $${BESIDE:+beside="$$BESIDE"}
	@$(RUN) reprofs answer "$$STUDY" $${LAB:+--lab "$$LAB"} $${PROFILE:+--profile "$$PROFILE"} \
		$${WHERE:+--where "$$WHERE"} $${CLIENTS:+--clients "$$CLIENTS"} $${BESIDE:+--beside "$$BESIDE"}
	@[ -z "$$STRICT" ] || $(RUN) reprofs claims "$$STUDY" --strict

answer: override export PROGRAM := $(value PROGRAM)
answer: override export IN := $(value IN)
answer: setup  ## which file system is best for a program (PROGRAM='git clone ...'; IN=FOLDER: it starts in a copy of it, else in an empty folder)
	@[ -n "$$PROGRAM" ] || { echo "answer: name a program: make answer PROGRAM='git clone ...'" >&2; exit 2; }
	@$(RUN) reprofs answer --in "$${IN:-$$(mktemp -d)}" -- sh -c "$$PROGRAM"

publish: override export STUDY := $(value STUDY)
publish: report  ## run a study, render its report, write results/STUDY
	@$(RUN) reprofs publish "$$STUDY"

archive: override export STUDY := $(value STUDY)
archive: setup  ## pack results/STUDY into archive/STUDY.tar.xz, which needs no network, root or Python to verify
	@$(RUN) reprofs archive "$$STUDY"

workflow-report: override export STUDY := $(value STUDY)
workflow-report: report  ## Snakemake's own report of a study, report/STUDY/workflow.html: rules, software, times, figures with captions
	@$(RUN) snakemake --quiet all --report "report/$$STUDY/workflow.html" --config study="$$STUDY"

campaign: override export REUSE := $(value REUSE)
campaign: setup  ## run and publish every published study that this checkout would measure differently; takes days, can be interrupted
	@scripts/campaign

site: setup  ## render all published results from their records into site/: HTML, PDF, index
	@$(RUN) reprofs site

test: setup  ## linters and all tests except soak
	@$(MAKE) --no-print-directory --jobs 3 lint guest-base guest-net guest-fio
	@$(RUN) pytest -n $(WORKERS) --dist loadgroup tests

try:  ## linters, and the tests of what changed since the last commit; a minute, no guests
	@$(RUN) python tests/trying.py

soak: setup  ## the long tests; before a release
	@$(RUN) --group slurm pytest -n $(WORKERS) --dist loadgroup -m "soak or wide" tests

lint: lint-types lint-rest

lint-types:
	@$(RUN) mypy > /dev/null || $(RUN) mypy

lint-rest:
	@$(RUN) ruff check --quiet
	@$(RUN) ruff format --check --quiet
	@$(RUN) lint-imports --no-cache --no-logo > /dev/null || $(RUN) lint-imports --no-cache --no-logo
	@$(RUN) snakefmt --check Snakefile workflow
	@$(RUN) snakemake --lint
	@$(RUN) clang-format --dry-run --Werror scripts/engine/*.[ch] scripts/engine/*/*.[ch] scripts/engine/*/*/*.h scripts/guest/*.c scripts/guest/*/*.[ch]
	@$(RUN) lizard --languages c --languages python --warnings_only --length 60 --CCN 20 scripts/engine scripts/reprofs
	@find scripts/reprofs scripts/engine \( -name '*.py' -o -name '*.[ch]' \) -exec wc -l {} \; | awk '$$1 > 500 {print $$2 ": more than 500 lines"; found = 1} END {exit found}' >&2
	@shellcheck scripts/setup scripts/run-study scripts/campaign scripts/guest/init scripts/guest/init-kernel scripts/*/*.sh .ci/run
	@$(RUN) nbstripout --verify notebooks/*.ipynb
	@$(RUN) python scripts/prose.py
	@$(RUN) python scripts/catalog.py --check

guest-%: override export GUEST = $*
guest-%:
	@$(RUN) reprofs guest --output "data/guest/$$GUEST.json"

soak-fs: setup  ## look for histories of calls after which a file system breaks a guarantee: FS=btrfs HOURS=1 SEED=1
	@$(RUN) reprofs soak "$(or $(FS),ext4)" --hours "$(or $(HOURS),1)" --seed "$(or $(SEED),1)"
bench: override export AGAINST := $(value AGAINST)
bench: setup  ## benchmarks: the engine, QEMU, a trial step by step (AGAINST=COMMIT: compare both), the recorder, hidden effects, the statistics, large studies
	@$(RUN) python tests/bench_engine.py
	@$(RUN) python tests/bench_qemu.py
	@$(RUN) python tests/bench_trial.py
	@$(RUN) python tests/bench_record.py
	@$(RUN) python tests/bench_effects.py
	@$(RUN) python tests/bench_inference.py
	@$(RUN) python tests/bench_scale.py

accept: setup  ## after a change of scripts/guest/qemu: run published trials by it, and write into envs/lab.lock that they are the same; an hour
	@$(RUN) reprofs lock --built qemu-own
	@$(RUN) reprofs accept

catalog: setup  ## write docs/CATALOG.md from the files
	@$(RUN) python scripts/catalog.py

# Its settings are those of a user who was asked about news and updates, and wants none.
JUPYTER = --LabApp.default_url=/lab/tree/notebooks/00-explore.ipynb --LabApp.app_settings_dir="$$PWD/config/jupyterlab"
lab: setup  ## open the notebooks in JupyterLab
	@$(RUN) jupyter lab $(JUPYTER) $$([ $$(id -u) -ne 0 ] || echo --allow-root)

release: setup  ## tag this commit as the version that it has, signed if git has a key (user.signingkey)
	@git diff --quiet HEAD || { echo "release: there are uncommitted changes: commit them first." >&2; exit 2; }
	@version=$$($(RUN) python -c 'from reprofs.version import VERSION; print(VERSION)'); \
		protocol=$$($(RUN) python -c 'from reprofs.records.protocol import PROTOCOL; print(PROTOCOL)'); \
		if git config user.signingkey > /dev/null; then kind=--sign; else kind=--annotate; \
			echo "release: git has no signing key (user.signingkey), so the tag is not signed" >&2; fi; \
		git tag $$kind "v$$version" --message "ReproFS $$version (protocol $$protocol)"

clean:  ## remove the outputs of runs (records, tables, reports); the cache stays
	rm -rf data/answers data/plan data/raw data/guest data/tables data/beside data/profiles data/results data/rounds report/*/ site logs .snakemake

.PHONY: help setup report publish workflow-report campaign site test try soak soak-fs lint lint-types lint-rest bench accept catalog lab release clean
