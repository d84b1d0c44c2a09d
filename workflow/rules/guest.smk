import json
import os

from reprofs.files import write_text
from reprofs.guest import image


def guest_spec(wildcards):
    """What envs/guest.yaml says of this guest alone: an edit of another guest must not repeat the trials of this one."""
    source, own = Path("envs/guest.yaml"), Path(f"data/guest/{wildcards.guest}.spec")
    try:
        text = json.dumps(image.read_spec(source, wildcards.guest), indent=1)
    except UserError:  # the rule says it in a sentence
        return str(source)
    if not own.exists() or own.read_text() != text:
        write_text(own, text)
        os.utime(own, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
    return str(own)


# A guest of the labs: engine, root image, kernel, initrd. They are kept in a cache; the output is only the manifest.
rule guest:
    input:
        guest_spec,
        files("scripts/guest/*", "scripts/engine/*.[ch]"),
    output:
        "data/guest/{guest}.json",
    log:
        "logs/guest-{guest}.log",
    conda:
        "../../envs/python.yaml"
    shell:
        "exec reprofs guest --output {output:q} 2> >(tee {log:q} >&2)"
