# Tables → statistics → figures → narrative: papermill runs each notebook once, the executed copy is kept.
# An edit of a notebook, or of a module that it imports directly or through others, runs it again: both are inputs.
# Rule → the notebook, folders that it reads besides the tables, folders that it writes.
NOTEBOOKS = {
    "quality": ("01-quality", [], []),
    "statistics": ("02-statistics", [], ["data/results/{study}"]),
    "figures": ("03-figures", ["data/results/{study}"], ["report/{study}/figures"]),
    "published": ("04-published", ["report/{study}/figures"], []),
    "narrative": (
        "05-report",
        ["data/results/{study}", "report/{study}/figures"],
        [],
    ),
    "agreement": ("06-agreement", ["data/results/{study}"], []),
}

for NAME, (NOTEBOOK, READS, WRITES) in NOTEBOOKS.items():

    rule:
        name:
            NAME
        input:
            notebook=f"notebooks/{NOTEBOOK}.ipynb",
            tables="data/tables/{study}",
            folders=READS,
            code=code(f"notebooks/{NOTEBOOK}.ipynb") + PUBLISHED,
        output:
            notebook=f"report/{{study}}/notebooks/{NOTEBOOK}.ipynb",
            folders=[directory(folder) for folder in WRITES],
        log:
            f"logs/{{study}}/{NOTEBOOK}.ipynb",
        conda:
            "../../envs/python.yaml"
        resources:
            kernel_slot=1,
        params:
            papermill=papermill,
        shell:
            "papermill {input.notebook:q} {log:q} {params.papermill} && cp {log:q} {output.notebook:q}"
