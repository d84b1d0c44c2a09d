# A guest of the labs: engine, root image, kernel, initrd. They are kept in a cache; the output is only the manifest.
rule guest:
    input:
        files("scripts/guest/*", "scripts/engine/*.[ch]"),
    output:
        "data/guest/{guest}.json",
    log:
        "logs/guest-{guest}.log",
    priority: 1_000_000  # before all trials: else those whose guest is there would run ahead of their order
    conda:
        "../../envs/python.yaml"
    params:
        made_of=lambda wildcards: FLOW.guest_made_of(wildcards.guest),
    shell:
        "exec reprofs guest --output {output:q} 2> >(tee {log:q} >&2)"
