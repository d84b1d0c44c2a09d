# One trial, one raw record. A change of the job (descriptors, seed, rules of the trial) runs the trial again, nothing else does.
rule trial:
    input:
        "data/guest/manifest.json",
    output:
        "data/raw/{study}/{trial}.json",
    log:
        "data/raw/{study}/{trial}.console.log",
    priority: lambda wildcards: len(TRIALS) - TRIALS[wildcards.trial]["order"]
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        job=lambda wildcards: JOBS[wildcards.trial],
        protocol=PROTOCOL,
        options=lambda wildcards: trial_options(wildcards.trial),
    shell:
        "exec reprofs trial {params.options} --output {output}"
