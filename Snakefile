# The whole study on one page: study → plan → guest → trials (→ looks → more trials) → tables → notebooks → report.
#   snakemake --cores all                       the default study
#   snakemake --cores all --config study=NAME   another one from config/studies
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/guest.smk"
include: "workflow/rules/trial.smk"
include: "workflow/rules/rounds.smk"
include: "workflow/rules/dataset.smk"
include: "workflow/rules/notebooks.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # Listed although the report depends on them: otherwise a deleted record would not be noticed.
        last_records,
        f"report/{STUDY}/index.html",
        f"report/{STUDY}/report.pdf",
