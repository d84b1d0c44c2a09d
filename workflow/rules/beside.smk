# The tables of the run that the report compares the study with (`make report BESIDE=RUN`).
rule beside:
    input:
        str(FLOW.beside) if FLOW.beside else [],
        "workflow/schemas/record.schema.yaml",
        code("reprofs.data.tables"),
        code="scripts/reprofs/publish/runs.py",
        plan=f"data/plan/{STUDY}.json",
    output:
        directory("data/beside/{study}"),
    log:
        "logs/{study}/beside.log",
    priority: 1_000_000  # before all trials, which would be for nothing where the two runs cannot be compared
    conda:
        "../../envs/python.yaml"
    params:
        run=FLOW.settings.beside,
    shell:
        "exec reprofs beside {params.run:q} --plan {input.plan:q} --output {output:q} 2> >(tee {log:q} >&2)"
