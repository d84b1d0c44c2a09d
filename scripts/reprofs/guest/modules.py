"""Kernel modules of which Debian has only the source, and our own: compiled once for each version and kernel."""

import shlex
import shutil
from pathlib import Path

from reprofs.files import sha256
from reprofs.guest.debian import Progress, output_of, unpack, versions
from reprofs.guest.store import digest_of, kept
from reprofs.plan.guest import Guest

SCRIPTS = Path(__file__).resolve().parents[2] / "guest"
# What compiles modules, besides their source and the kernel's headers.
COMPILER = "base-files,base-passwd,bash,binutils,coreutils,dash,diffutils,findutils,gcc,grep,gzip,kmod,libc-bin,"
COMPILER += "libc6-dev,make,mawk,perl-base,sed,tar"


def module_sets(guest: Guest) -> list[tuple[str, str]]:
    """What is compiled for the guest's kernel: the name of its script, the package with its source (empty: our own)."""
    return [("modeldisk", ""), *([(guest.name, guest.modules)] if guest.modules else [])]


def compile_script(name: str) -> str:
    """The hook that compiles modules; our own source is embedded in its text."""
    text, source = (SCRIPTS / f"{name}.sh").read_text(), SCRIPTS / f"{name}.c"
    first, rest = text.split("\n", 1)
    return f"{first}\nSOURCE={shlex.quote(source.read_text())}\n{rest}" if source.exists() else text


def add_modules(
    tree: Path, cache: Path, guest: Guest, packages: dict[str, str], release: str, mirrors: list[str], say: Progress
) -> dict:
    """Put compiled kernel modules into an unpacked tree, from the cache if it has them.

    packages: what is in the tree; release: of its kernel. Returns modules {file: sha256} and compiled_with {package:
    version}.
    """
    headers = f"linux-headers-{release}={packages[f'linux-image-{release}']}"
    target = tree / "usr/lib/modules" / release / "updates"
    target.mkdir(exist_ok=True)
    added: dict = {"modules": {}, "compiled_with": {}}
    for name, source in module_sets(guest):
        # The first package of the guest's section has the modules' tools: from the same source, in the same version.
        wanted = [COMPILER, *([f"{source}={packages[guest.packages[0]]}"] if source else []), headers]
        script = compile_script(name)

        def make(home: Path, name=name, wanted=wanted, script=script) -> dict:
            say(f"{name}: kernel modules must be compiled for kernel {release}, which is done once")
            unpack(home, guest, wanted, script, mirrors, say, folder="modules")
            lock = (home / "packages.lock").read_bytes()
            (home / "packages.lock").unlink()
            modules = {path.name: sha256(path) for path in sorted(home.glob("*.ko"))}
            return {"modules": modules, "compiled_with": versions(lock)}

        home = cache / "modules" / digest_of([script, *wanted])
        compiled = kept(home, make, lambda known: known["modules"])
        for file in compiled["modules"]:
            shutil.copy(home / file, target)
        for key, values in added.items():
            values |= compiled[key]
    (tree / "etc/modprobe.d").mkdir(exist_ok=True)
    (tree / "etc/modprobe.d/reprofs.conf").write_text("".join(f"{line}\n" for line in guest.modprobe))
    (tree / "etc/modules-load.d").mkdir(exist_ok=True)
    (tree / "etc/modules-load.d/reprofs.conf").write_text("".join(f"{module}\n" for module in guest.preload))
    # The tree's own depmod, run by the tree's own loader: the builder may not be root and may have no depmod.
    command = [tree / "usr/lib64/ld-linux-x86-64.so.2", "--argv0", "depmod", "--library-path"]
    output_of([*map(str, [*command, tree / "usr/lib/x86_64-linux-gnu", tree / "usr/bin/kmod", "-b", tree]), release])
    return added
