# A study that adds repetitions: after each interim analysis it ends, or runs those up to the next one.
checkpoint look:
    input:
        lambda wildcards: FLOW.records(int(wildcards.rounds)),
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
    return FLOW.last_plan(
        lambda rounds: checkpoints.look.get(study=STUDY, rounds=rounds).output[0]
    )


def last_records(wildcards):
    """The records of these rounds."""
    return FLOW.last_records(last_plan(wildcards))
