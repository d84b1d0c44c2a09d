# Where the instructions of a trial went: it runs once more under a plugin that counts, and must measure the same.
# Editing the drawing code repeats no profile.
rule profile:
    input:
        files("scripts/guest/profile/*"),
        code("reprofs.guest.subsystems"),
        code="scripts/reprofs/trial/profile.py",
        record="data/raw/{study}/{trial}.json",
    output:
        directory("data/profiles/{study}/{trial}"),
    log:
        "logs/{study}/profile-{trial}.log",
    conda:
        "../../envs/python.yaml"
    params:
        options=FLOW.folders,
    shell:
        "exec reprofs profile {input.record:q} --misses --failed-too {params.options} --output {output:q}"
        " > {log:q} 2> >(tee -a {log:q} >&2)"
