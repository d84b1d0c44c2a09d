# Tables → statistics, figures, prose: papermill runs the notebook of each topic that the study has, and keeps the copy.
# An edit of a notebook, or of a module that it imports directly or through others, runs it again: both are inputs.
# The notebook of the statistics writes the results that all others read.
for NOTEBOOK in NOTEBOOKS:
    IS_STATISTICS = topics.name_of(NOTEBOOK) == "statistics"

    rule:
        name:
            f"notebook_{topics.name_of(NOTEBOOK)}"
        input:
            notebook=NOTEBOOK,
            tables="data/tables/{study}",
            results=[] if IS_STATISTICS else "data/results/{study}",
            code=code(str(NOTEBOOK)) + code("reprofs.stats.study") + PUBLISHED,
        output:
            notebook=f"report/{{study}}/notebooks/{NOTEBOOK.name}",
            results=directory("data/results/{study}") if IS_STATISTICS else [],
        log:
            f"logs/{{study}}/{NOTEBOOK.name}",
        conda:
            "../../envs/python.yaml"
        resources:
            kernel_slot=1,
        shell:
            "papermill {input.notebook:q} {log:q} -r study {wildcards.study:q} --kernel python3 --no-progress-bar"
            " --log-level ERROR --execution-timeout 600 && cp {log:q} {output.notebook:q}"
