# Executed notebooks → one HTML file, one PDF, and the figures as files.
rule report:
    input:
        notebooks=[f"report/{{study}}/notebooks/{path.name}" for path in FLOW.notebooks],
        code=files("report/*.html", "report/*.css", "report/*.lua", "report/*.typ")
        + code("reprofs.report.render"),
        tables="data/tables/{study}",
    output:
        # update: the last report stays where this one cannot be made
        html=update(
            report(
                "report/{study}/index.html",
                caption="../report/html.rst",
                category="Report",
                labels={"study": "{study}", "for": "screen"},
            )
        ),
        pdf=update(
            report(
                "report/{study}/report.pdf",
                caption="../report/pdf.rst",
                category="Report",
                labels={"study": "{study}", "for": "print"},
            )
        ),
        figures=update(
            report(
                directory("report/{study}/figures"),
                patterns=["{figure}.svg"],
                caption="../report/figure.rst",
                category="Figures",
                labels={"figure": "{figure}"},
            )
        ),
    log:
        "logs/{study}/report.log",
    conda:
        "../../envs/python.yaml"
    params:
        folder=lambda wildcards, output: Path(output.html).parent,
        first=FLOW.first,
    shell:
        "exec reprofs report {input.notebooks:q} --tables {input.tables:q} --output {params.folder:q}"
        " --first {params.first:q} 2> >(tee {log:q} >&2)"
