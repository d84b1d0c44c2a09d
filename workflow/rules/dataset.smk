# Raw records → tidy tables with a data dictionary.
rule dataset:
    input:
        last_records,
        # The tables have their number, so a quarantined record requests new tables, and these a new record.
        files(f"data/raw/{STUDY}/set-aside/*.json"),
        "workflow/schemas/record.schema.yaml",
        code("reprofs.data.tables"),
        plan=last_plan,
    output:
        directory("data/tables/{study}"),
    log:
        "logs/{study}/dataset.log",
    conda:
        "../../envs/python.yaml"
    params:
        raw="data/raw/{study}",
    shell:
        "exec reprofs dataset {input.plan:q} --raw {params.raw:q} --output {output:q} 2> >(tee {log:q} >&2)"
