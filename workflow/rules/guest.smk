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


# Our own QEMU: faster than Debian's, by the same numbers. No trial waits for it: those that begin before it is there do without.
rule qemu:
    input:
        files("scripts/guest/qemu/*", "scripts/guest/qemu.sh"),
    output:
        "data/guest/qemu.txt",
    log:
        "logs/qemu.log",
    priority: 1_000_000
    conda:
        "../../envs/python.yaml"
    params:
        made_of=FLOW.qemu_made_of(),
    shell:
        "exec reprofs qemu --output {output:q} 2> >(tee {log:q} >&2)"
