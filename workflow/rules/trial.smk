# One trial, one raw record. A change of the job (descriptors, seed, rules of the trial) runs the trial again, nothing else does.
rule trial:
    input:
        "data/guest/manifest.json",
    output:
        "data/raw/{study}/{trial}.json",
    params:
        job=lambda wildcards: JOBS[wildcards.trial],
        protocol=PROTOCOL,
        options=lambda wildcards: trial_options(wildcards.trial),
    priority: lambda wildcards: len(TRIALS) - TRIALS[wildcards.trial]["order"]
    threads: 1
    log:
        "data/raw/{study}/{trial}.console.log",
    conda:
        "../../envs/python.yaml"
    shell:
        "exec reprofs trial {params.options} --output {output}"
