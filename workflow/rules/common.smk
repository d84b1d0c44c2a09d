# What all rules share: the flow of the chosen study (scripts/reprofs/flow.py).
import re
import sys
from pathlib import Path

from reprofs.flow import Flow, code, files

FLOW = Flow.of(config)
STUDY = FLOW.study
FLOW.deploys(workflow.deployment_settings.deployment_method)

if (
    workflow.is_main_process
):  # the jobs of a cluster read this file while others are writing
    FLOW.remove_changed()


wildcard_constraints:
    study=re.escape(STUDY),
    rounds=r"\d+",
    # Not the names of all trials: Snakemake searches the constraint for each file of each job.
    trial=r"r\d+-[^/]+",


onstart:
    FLOW.start(workflow.global_resources)
