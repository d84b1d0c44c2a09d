# Tables → statistics → figures → narrative: papermill runs each notebook once, the executed copy is kept.
# An edit of a notebook, or of a module that it imports directly or through others, runs it again: both are inputs.
rule quality:
    input:
        notebook="notebooks/01-quality.ipynb",
        tables="data/tables/{study}",
        code=code("notebooks/01-quality.ipynb") + PUBLISHED,
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
        "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output:q}"


rule statistics:
    input:
        notebook="notebooks/02-statistics.ipynb",
        tables="data/tables/{study}",
        code=code("notebooks/02-statistics.ipynb") + PUBLISHED,
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
        "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output.notebook:q}"


rule figures:
    input:
        notebook="notebooks/03-figures.ipynb",
        tables="data/tables/{study}",
        results="data/results/{study}",
        code=code("notebooks/03-figures.ipynb") + PUBLISHED,
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
        "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output.notebook:q}"


rule published:
    input:
        notebook="notebooks/04-published.ipynb",
        tables="data/tables/{study}",
        figures="report/{study}/figures",
        code=code("notebooks/04-published.ipynb") + PUBLISHED,
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
        "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output:q}"


rule agreement:
    input:
        notebook="notebooks/06-agreement.ipynb",
        tables="data/tables/{study}",
        results="data/results/{study}",
        code=code("notebooks/06-agreement.ipynb") + PUBLISHED,
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
        "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output:q}"


rule narrative:
    input:
        notebook="notebooks/05-report.ipynb",
        tables="data/tables/{study}",
        results="data/results/{study}",
        figures="report/{study}/figures",
        code=code("notebooks/05-report.ipynb") + PUBLISHED,
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
        "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output:q}"
