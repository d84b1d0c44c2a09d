# One trial, one raw record: run, or taken from what this machine has measured by equal identity (with REUSE=1 from results/,
# too). A change of the job (descriptors, seed, rules of the trial), of its programs or its guest asks for it again, nothing
# else does.
rule trial:
    input:
        lambda wildcards: FLOW.guest_of(wildcards.trial),
    output:
        "data/raw/{study}/{trial}.json",
    log:
        "data/raw/{study}/{trial}.console.log",
    priority: lambda wildcards: len(FLOW.trials) - FLOW.trials[wildcards.trial].order
    conda:
        "../../envs/python.yaml"
    # A trial on a real clock has the whole host: no other job of this run, and (by the limit on bench_slot) no
    # other such trial where a fork gives it fewer threads. The command itself waits for those of other runs.
    threads: FLOW.where_alone(lambda: workflow.cores or 1, 1)
    resources:
        bench_slot=FLOW.where_alone(lambda: 1, 0),
        # Of profiles/slurm: no other job on its node.
        slurm_extra=FLOW.where_alone(lambda: "'--exclusive'", ""),
    params:
        made_of=lambda wildcards: FLOW.made_of(wildcards.trial),
        job=lambda wildcards: FLOW.trial(wildcards.trial).job_sha256,
        options=lambda wildcards: FLOW.options(wildcards.trial),
    shell:
        "exec reprofs trial {params.options} --job {params.job:q} --take --output {output:q}"
