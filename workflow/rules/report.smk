# Executed notebooks → one HTML file and one PDF.
rule report:
    input:
        quality="report/{study}/notebooks/01-quality.ipynb",
        statistics="report/{study}/notebooks/02-statistics.ipynb",
        narrative="report/{study}/notebooks/05-report.ipynb",
        published=(
            ["report/{study}/notebooks/04-published.ipynb"]
            if "published" in PLAN
            else []
        ),
        agreement=(
            ["report/{study}/notebooks/06-agreement.ipynb"]
            if len({trial["lab"] for trial in TRIALS.values()}) > 1
            else []
        ),
        figures="report/{study}/figures",
        code=files(
            "report/*.html",
            "report/*.css",
            "report/*.lua",
            "report/*.typ",
        )
        + code("reprofs.report"),
        tables="data/tables/{study}",
    output:
        html="report/{study}/index.html",
        pdf="report/{study}/report.pdf",
    log:
        "logs/{study}/report.log",
    conda:
        "../../envs/python.yaml"
    params:
        notebooks=lambda wildcards, input: Path(input.narrative).parent,
        folder=lambda wildcards, output: Path(output.html).parent,
    shell:
        "exec reprofs report {params.notebooks:q} --study {input.tables:q}/study.json --output {params.folder:q}"
        " 2> >(tee {log:q} >&2)"
