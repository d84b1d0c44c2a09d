# Tables → statistics → figures → narrative: papermill runs each notebook once, the executed copy is kept.
# An edit of a notebook or of the analysis runs it again: both are inputs.
rule quality:
    input:
        notebook="notebooks/01-quality.ipynb",
        tables="data/tables/{study}",
        code=ANALYSIS,
    output:
        "report/{study}/notebooks/01-quality.ipynb",
    log:
        "logs/{study}/01-quality.ipynb",
    conda:
        "../../envs/python.yaml"
    resources:
        kernel_slot=1,
    params:
        papermill=papermill,
    shell:
        "papermill {input.notebook} {log} {params.papermill} && cp {log} {output}"


rule statistics:
    input:
        notebook="notebooks/02-statistics.ipynb",
        tables="data/tables/{study}",
        code=ANALYSIS,
    output:
        notebook="report/{study}/notebooks/02-statistics.ipynb",
        results=directory("data/results/{study}"),
    log:
        "logs/{study}/02-statistics.ipynb",
    conda:
        "../../envs/python.yaml"
    resources:
        kernel_slot=1,
    params:
        papermill=papermill,
    shell:
        "papermill {input.notebook} {log} {params.papermill} && cp {log} {output.notebook}"


rule figures:
    input:
        notebook="notebooks/03-figures.ipynb",
        tables="data/tables/{study}",
        results="data/results/{study}",
        code=ANALYSIS,
    output:
        notebook="report/{study}/notebooks/03-figures.ipynb",
        figures=directory("report/{study}/figures"),
    log:
        "logs/{study}/03-figures.ipynb",
    conda:
        "../../envs/python.yaml"
    resources:
        kernel_slot=1,
    params:
        papermill=papermill,
    shell:
        "papermill {input.notebook} {log} {params.papermill} && cp {log} {output.notebook}"


rule published:
    input:
        notebook="notebooks/04-published.ipynb",
        tables="data/tables/{study}",
        figures="report/{study}/figures",
        code=ANALYSIS,
    output:
        "report/{study}/notebooks/04-published.ipynb",
    log:
        "logs/{study}/04-published.ipynb",
    conda:
        "../../envs/python.yaml"
    resources:
        kernel_slot=1,
    params:
        papermill=papermill,
    shell:
        "papermill {input.notebook} {log} {params.papermill} && cp {log} {output}"


rule agreement:
    input:
        notebook="notebooks/06-agreement.ipynb",
        tables="data/tables/{study}",
        results="data/results/{study}",
        code=ANALYSIS,
    output:
        "report/{study}/notebooks/06-agreement.ipynb",
    log:
        "logs/{study}/06-agreement.ipynb",
    conda:
        "../../envs/python.yaml"
    resources:
        kernel_slot=1,
    params:
        papermill=papermill,
    shell:
        "papermill {input.notebook} {log} {params.papermill} && cp {log} {output}"


rule narrative:
    input:
        notebook="notebooks/05-report.ipynb",
        tables="data/tables/{study}",
        results="data/results/{study}",
        figures="report/{study}/figures",
        code=ANALYSIS,
    output:
        "report/{study}/notebooks/05-report.ipynb",
    log:
        "logs/{study}/05-report.ipynb",
    conda:
        "../../envs/python.yaml"
    resources:
        kernel_slot=1,
    params:
        papermill=papermill,
    shell:
        "papermill {input.notebook} {log} {params.papermill} && cp {log} {output}"
