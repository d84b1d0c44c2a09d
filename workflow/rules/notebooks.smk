# Tables → statistics, figures, prose: papermill runs the notebook of each part of the report, and keeps the copy.
# An edit of a notebook, or of a module that it imports directly or through others, runs it again: both are inputs.
# The notebook of the statistics writes the results that all others read.
for NOTEBOOK in FLOW.notebooks:
    IS_STATISTICS = NOTEBOOK.name == "statistics.ipynb"

    rule:
        name:
            f"notebook_{NOTEBOOK.stem}"
        input:
            notebook=NOTEBOOK,
            tables="data/tables/{study}",
            results=[] if IS_STATISTICS else "data/results/{study}",
            profiles=FLOW.profiled if NOTEBOOK.name == "kernels.ipynb" else [],
            beside="data/beside/{study}" if NOTEBOOK.name == "changes.ipynb" else [],
            larger=FLOW.others if NOTEBOOK.name == "answer.ipynb" else [],
            code=code(str(NOTEBOOK)) + FLOW.published,
        output:
            notebook=f"report/{{study}}/notebooks/{NOTEBOOK.name}",
            digest=f"report/{{study}}/notebooks/{NOTEBOOK.name}.sha256",
            results=directory("data/results/{study}") if IS_STATISTICS else [],
        log:
            f"logs/{{study}}/{NOTEBOOK.name}",
        priority: NOTEBOOK.stat().st_size  # the longest first, so that no processor waits for it at the end
        conda:
            "../../envs/python.yaml"
        shell:
            "exec reprofs notebook {input.notebook:q} --study {wildcards.study:q} --log {log:q}"
            " --output {output.notebook:q}"
