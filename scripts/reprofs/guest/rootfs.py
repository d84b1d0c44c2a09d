"""An unpacked tree of packages -> the tree of a guest: what trials cannot use goes, what install scripts do is done.

Everything is done by Python or by programs of the tree itself, run by its own loader: nothing needs root, and nothing
of this machine (hostname, user, umask, apt's configuration) gets into the tree.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.plan.guest import Guest
from reprofs.workplace import end_with_parent

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
# Not unpacked: what is for readers, hardware and networks that the guest does not have, what no trial runs.
KEPT_DRIVERS = "acpi/nfit|block|cdrom|dax|firmware|md|net|nvdimm|virtio"
KEPT_DEVICES = "dummy|ifb|net_failover|tap|tun|veth|virtio_net"  # of a network
SKIPPED = (
    r"usr/share/(doc|man|info|locale|lintian|bash-completion|zoneinfo|zsh|initramfs-tools|gitweb)(/|$)"
    r"|var/lib/systemd(/|$)|usr/lib/(file|systemd|udev|x86_64-linux-gnu/(gconv|systemd))(/|$)"
    r"|usr/(share|lib/x86_64-linux-gnu)/perl(/|$)"  # the language itself is perl-base
    r"|usr/(bin|lib/git-core)/(git-(daemon|http-.*|imap-send|remote-http|shell)|scalar)$"
    r"|usr/lib/modules/[^/]+/kernel/(sound|arch/x86/kvm)(/|$)"
    rf"|usr/lib/modules/[^/]+/kernel/drivers/(?!({KEPT_DRIVERS})(/|$)|acpi/?$)"
    rf"|usr/lib/modules/[^/]+/kernel/drivers/net/(?!({KEPT_DEVICES})\.ko)"
    r"|usr/lib/modules/[^/]+/kernel/drivers/block/(aoe|drbd|mtip32xx|xen)"
    r"|usr/lib/modules/[^/]+/kernel/fs/(adfs|affs|afs|autofs|befs|bfs|coda|dlm|ecryptfs|efs|freevxfs|gfs2|hpfs|jffs2"
    r"|minix|ocfs2|omfs|pstore|qnx4|qnx6|romfs|smb|sysv|ubifs|ufs|vboxsf)(/|$)"
    r"|usr/lib/modules/[^/]+/kernel/net/(([^/]+/)?netfilter|sunrpc/xprtrdma|6lowpan|9p|appletalk|atm|ax25|batman-adv"
    r"|bluetooth|can|dccp|hsr|ieee802154|kcm|l2tp|lapb|mac80211|mac802154|mpls|mptcp|netrom|nfc|openvswitch"
    r"|phonet|qrtr|rds|rose|rxrpc|sctp|smc|tipc|vmw_vsock|wireless|x25|xfrm)(/|$)"
)
FOLDERS = (
    *("dev", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp"),
    # What the install script of the NFS server would have made.
    *("var/lib/nfs/rpc_pipefs", "var/lib/nfs/v4recovery", "var/lib/nfs/sm", "var/lib/nfs/sm.bak"),
)
FILES = {
    "etc/hostname": "reprofs\n",
    "etc/hosts": "127.0.0.1 localhost reprofs\n",
    "etc/fstab": "",
    # Without udev nobody else makes device nodes or answers lvm's questions about them.
    "etc/lvm/lvmlocal.conf": (
        "activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 }\n"
        "backup { backup=0 archive=0 }\n"
        "devices { use_devicesfile=0 obtain_device_list_from_udev=0 "
        'external_device_info_source="none" types=["nullb", 16, "modeldisk", 16] }\n'
        "global { event_activation=0 use_lvmpolld=0 }\n"
    ),
    "var/lib/nfs/etab": "",
    "var/lib/nfs/rmtab": "",
    "var/lib/nfs/state": "",
}
LINKS = {"usr/bin/awk": "mawk", "etc/mtab": "/proc/self/mounts"}
# The user that rpcbind becomes.
USERS = "_rpc:x:100:65534::/run/rpcbind:/usr/sbin/nologin\n"
SIGNED = b"~Module signature appended~\n"


@contextlib.contextmanager
def umask() -> Iterator[None]:
    """What is made meanwhile has usual modes, also by a user with others."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def run(tree: Path, program: str, *words: str, loader: tuple[str, ...] = ()) -> str:
    """The output of a program of a tree, by the tree's own loader, or of the loader itself where it has options.

    words: with absolute paths, for it runs in the tree: the loader takes no colons in paths. Raises UserError when it
    fails.
    """
    command = ["--inhibit-cache", "--argv0", Path(program).name, "--library-path", LIBRARIES, *loader, program, *words]
    done = subprocess.run(
        [str(tree.absolute() / LOADER), *command],
        cwd=tree,
        capture_output=True,
        text=True,
        errors="replace",
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        preexec_fn=end_with_parent,
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        said = lines[-1] if lines else f"exit code {done.returncode}"
        raise UserError(f"{Path(program).name} of the locked packages failed: {cut(said, 150)}")
    return done.stdout


def finish(tree: Path, guest: Guest, release: str) -> None:
    """All but the modules. release: of the kernel."""
    for folder in FOLDERS:
        (tree / folder).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    files = FILES | {
        "etc/passwd": (tree / "usr/share/base-passwd/passwd.master").read_text() + USERS,
        "etc/group": (tree / "usr/share/base-passwd/group.master").read_text(),
        "etc/modprobe.d/reprofs.conf": "".join(f"{line}\n" for line in guest.modprobe),
        "etc/modules-load.d/reprofs.conf": "".join(f"{module}\n" for module in guest.preload),
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a link would lead out of the tree
        path.write_text(text)
    (tree / "etc/resolv.conf").unlink(missing_ok=True)
    for name, target in LINKS.items():
        (tree / name).unlink(missing_ok=True)
        (tree / name).symlink_to(target)
    # -r takes the tree for the root: by chroot where that is allowed, else by name, with the same result.
    run(tree, "usr/sbin/ldconfig", "-i", "-r", str(tree))
    shutil.rmtree(tree / "var/cache/ldconfig", ignore_errors=True)  # inode numbers and times of this machine
    depmod(tree, tree, release)


def depmod(tools: Path, tree: Path, release: str) -> None:
    """Writes what the modules of a tree depend on, beside them; tools: a tree that has depmod."""
    program = "usr/bin/depmod" if (tools / "usr/bin/depmod").exists() else "usr/sbin/depmod"
    run(tools, program, "-b", str(tree), release)


def plain_modules(folder: Path) -> None:
    """Unpacks the kernel's modules and takes off their signatures: in the guest that would cost more instructions than
    the module itself.

    A signature is at the end of a file: data, 12 bytes whose last four are the size of the data, a line of text
    (scripts/sign-file.c of Linux).
    """
    for path in sorted(folder.rglob("*.ko*")):
        data = path.read_bytes()
        if path.suffix == ".xz":
            path.unlink()
            path, data = path.with_suffix(""), lzma.decompress(data)
        if data.endswith(SIGNED):
            size = int.from_bytes(data[-len(SIGNED) - 4 : -len(SIGNED)], "big")
            data = data[: -len(SIGNED) - 12 - size]
        path.write_bytes(data)
        path.chmod(0o644)


def release_of(tree: Path) -> str:
    """The release of the tree's only kernel. Raises UserError when there is none."""
    found = sorted(path.name for path in (tree / "usr/lib/modules").glob("*"))
    if len(found) != 1:
        raise UserError(f"the guest's packages have {len(found)} kernels: leave one in envs/guest.yaml.")
    return found[0]


SKIP = re.compile(SKIPPED)
