"""What a guest has in memory when it starts: an archive, with the modules that lead to the root image."""

import io
import re
from pathlib import Path

from reprofs.errors import UserError
from reprofs.guest.folder import Folder
from reprofs.guest.unpack import most, unxz

# In this order. erofs needs crc32c, which no dependency says. libcrc32c takes, once and for all, the fastest crc32c
# that is there when it is loaded, and later XFS and others compute with it. So the one that uses the processor's
# instruction comes before it, as modprobe has it on a machine; a processor without the instruction refuses the module.
BOOT_MODULES = ("crc32c_generic", "crc32c_intel", "nfit", "nd_pmem", "erofs", "overlay")


def cpio(entries: list[tuple[str, int, bytes | None]]) -> bytes:
    """An uncompressed newc archive (the kernel's initramfs format) of (path, mode bits, content; None: a folder).

    The same entries give the same bytes: owner root, times 0, inodes counted. Archives may be joined.
    Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
    """
    out = io.BytesIO()
    for inode, (path, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        kind = 0o040000 if content is None else 0o100000
        data = content or b""
        name = path.encode() + b"\0"
        fields = (inode, kind | mode, 0, 0, 2 if content is None else 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + name)
        out.write(bytes(-out.tell() % 4) + data)
        out.write(bytes(-out.tell() % 4))
    return out.getvalue()


def module_order(dependencies: str, wanted: tuple[str, ...]) -> list[str]:
    """Paths of the modules to insert, in order, for the modules in `wanted`. dependencies: the text of modules.dep."""

    def name(path: str) -> str:
        return re.sub(r"\.ko.*", "", Path(path).name).replace("-", "_")

    needs = {}
    for line in dependencies.splitlines():
        path, _, rest = line.partition(":")
        # The last one named is needed first.
        needs[name(path)] = [*reversed(rest.split()), path]
    order: dict[str, None] = {}
    for module in wanted:
        if module not in needs:
            raise UserError(f"the guest's kernel has no module {module}: choose another suite in envs/guest.yaml.")
        order.update(dict.fromkeys(needs[module]))
    return list(order)


def base_initrd(tree: Folder, release: str, tools: Folder, wanted: tuple[str, ...] = BOOT_MODULES) -> bytes:
    """What must be in memory to reach the root image: a static busybox and a few kernel modules in their order.

    tree: has the modules; tools: a tree that has busybox; wanted: modules, which are not built in.
    """
    modules = f"usr/lib/modules/{release}"
    order = module_order(tree.read(f"{modules}/modules.dep").decode(errors="surrogateescape"), wanted)
    entries: list[tuple[str, int, bytes | None]] = [("bin", 0o755, None), ("modules", 0o755, None)]
    entries.append(("bin/busybox", 0o755, tools.read("usr/bin/busybox")))
    names = []
    for path in order:
        data = tree.read(f"{modules}/{path}")
        names.append(re.sub(r"\.ko.*", "", Path(path).name))
        plain = unxz(path, data, most(len(data))) if path.endswith(".xz") else data
        entries.append((f"modules/{names[-1]}.ko", 0o644, plain))
    entries.append(("modules/order", 0o644, "".join(f"{name}\n" for name in names).encode()))
    return cpio(entries)
