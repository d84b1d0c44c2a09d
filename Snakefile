# The whole study on one page: study → plan → guest → trials (→ looks → more trials) → tables → notebooks → report.
#   snakemake --cores all                       the default study
#   snakemake --cores all --config study=NAME   a study of config/studies
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


# `make workflow-report`
report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/guest.smk"
include: "workflow/rules/trial.smk"
include: "workflow/rules/rounds.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/dataset.smk"
include: "workflow/rules/beside.smk"
include: "workflow/rules/notebooks.smk"
include: "workflow/rules/report.smk"


onsuccess:
    if edited := FLOW.edited_meanwhile():
        print(f"reprofs: {edited}", file=sys.stderr)


rule all:
    default_target: True
    input:
        # Listed although the report depends on them: otherwise it would not be noticed that one was deleted.
        last_records,
        f"data/tables/{STUDY}",
        f"data/results/{STUDY}",
        FLOW.profiled,
        [f"report/{STUDY}/notebooks/{path.name}" for path in FLOW.notebooks],
        f"report/{STUDY}/index.html",
        f"report/{STUDY}/report.pdf",
