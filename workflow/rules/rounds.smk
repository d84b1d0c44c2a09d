# A study whose rounds adapt: after each look either it ends or the rounds up to the next look are run.
import json


checkpoint look:
    input:
        lambda wildcards: records(int(wildcards.rounds)),
        "workflow/schemas/record.schema.yaml",
        code("reprofs.stats.rounds"),
        plan=f"data/plan/{STUDY}.json",
    output:
        plan="data/rounds/{study}/{rounds}.json",
        digest="data/rounds/{study}/{rounds}.json.sha256",
    log:
        "logs/{study}/look-{rounds}.log",
    conda:
        "../../envs/python.yaml"
    params:
        raw="data/raw/{study}",
    shell:
        "exec reprofs look {input.plan:q} --rounds {wildcards.rounds:q} --raw {params.raw:q} --output {output.plan:q}"
        " 2> >(tee {log:q} >&2)"


def last_plan(wildcards):
    """The plan of the rounds that the study has in the end."""
    if not PLAN.study.rule:
        return f"data/plan/{STUDY}.json"
    for rounds in LOOKS:
        path = checkpoints.look.get(study=STUDY, rounds=rounds).output[0]
        if json.loads(Path(path).read_text())["stopping"]["enough"]:
            return path
    raise ValueError(f"{path} does not end the study")


def last_records(wildcards):
    """The records of these rounds."""
    path = last_plan(wildcards)
    adapts = PLAN.study.rule
    return records(int(Path(path).stem) if adapts else LOOKS[0])
