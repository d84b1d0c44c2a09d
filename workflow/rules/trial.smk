# One trial, one raw record. A change of the job (descriptors, seed, rules of the trial) or of its programs runs the trial again,
# nothing else does.
rule trial:
    input:
        lambda wildcards: guest_of(wildcards.trial) or [],
    output:
        "data/raw/{study}/{trial}.json",
    log:
        "data/raw/{study}/{trial}.console.log",
    priority: lambda wildcards: len(TRIALS) - TRIALS[wildcards.trial].order
    conda:
        "../../envs/python.yaml"
    # A trial with a real clock has the whole host: nothing else of this run beside it, and (by the limit on bench_slot) no
    # other such trial where a fork gives it fewer threads. The command itself waits for those of other runs.
    threads: where_alone(lambda: workflow.cores or 1, 1)
    resources:
        bench_slot=where_alone(lambda: 1, 0),
        # Of profiles/slurm: no other job on its node.
        slurm_extra=where_alone(lambda: "'--exclusive'", ""),
    params:
        job=lambda wildcards: TRIALS[wildcards.trial].job_sha256,
        # Its own ones only: an edit of one repeats the trials that use it.
        programs=lambda wildcards: programs_of(wildcards.trial),
        protocol=PLAN.protocol,
        layout=record.LAYOUT,
        options=lambda wildcards: trial_options(wildcards.trial),
    shell:
        "exec reprofs trial {params.options} --job {params.job:q} --output {output:q}"
