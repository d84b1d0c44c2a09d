# Executed notebooks → one HTML file and one PDF.
rule report:
    input:
        "report/{study}/notebooks/01-quality.ipynb",
        "report/{study}/notebooks/02-statistics.ipynb",
        "report/{study}/notebooks/05-report.ipynb",
        "report/{study}/figures",
        files("report/*.*", "scripts/reprofs/report.py"),
        tables="data/tables/{study}",
    output:
        "report/{study}/index.html",
        "report/{study}/report.pdf",
    params:
        notebooks="report/{study}/notebooks",
        folder="report/{study}",
    log:
        "logs/{study}/report.log",
    conda:
        "../../envs/python.yaml"
    shell:
        "exec reprofs report {params.notebooks} --study {input.tables}/study.json --output {params.folder}"
        " 2> >(tee {log} >&2)"
