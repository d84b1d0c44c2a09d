# Executed notebooks → one HTML file, one PDF, and the figures as files.
rule report:
    input:
        notebooks=[f"report/{{study}}/notebooks/{path.name}" for path in NOTEBOOKS],
        code=files("report/*.html", "report/*.css", "report/*.lua", "report/*.typ")
        + code("reprofs.report.render"),
        tables="data/tables/{study}",
    output:
        html="report/{study}/index.html",
        pdf="report/{study}/report.pdf",
        figures=directory("report/{study}/figures"),
    log:
        "logs/{study}/report.log",
    conda:
        "../../envs/python.yaml"
    params:
        folder=lambda wildcards, output: Path(output.html).parent,
        first=contents.first(PLAN),
    shell:
        "exec reprofs report {input.notebooks:q} --tables {input.tables:q} --output {params.folder:q}"
        " --first {params.first:q} 2> >(tee {log:q} >&2)"
