# Raw records → tidy tables with a data dictionary.
rule dataset:
    input:
        RECORDS,
        "workflow/schemas/record.schema.yaml",
        "scripts/reprofs/dataset.py",
        plan=f"data/plan/{STUDY}.json",
    output:
        directory("data/tables/{study}"),
    log:
        "logs/{study}/dataset.log",
    conda:
        "../../envs/python.yaml"
    params:
        raw="data/raw/{study}",
    shell:
        "exec reprofs dataset {input.plan} --raw {params.raw} --output {output} 2> >(tee {log} >&2)"
