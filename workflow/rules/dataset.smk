# Raw records → tidy tables with a data dictionary.
rule dataset:
    input:
        last_records,
        # Their number stands in the tables; so a record that was set aside asks for tables, and they for a new one.
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
