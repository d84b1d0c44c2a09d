"""An unpacked tree of packages -> the tree of a guest: what trials cannot use goes, what install scripts do is done.

Everything is done by Python, or by programs of packages in namespaces of their own (enter.py): nothing needs root, no
package reaches this machine, and nothing of this machine (hostname, user, umask, apt's configuration) gets into the
tree.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprofs.errors import UserError, cut, middle
from reprofs.guest import enter
from reprofs.guest.folder import Folder
from reprofs.guest.unpack import RATIO, ROOM, unxz
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
MODULES = "usr/lib/modules"
RELEASE = re.compile(r"[\w.+~][\w.+~-]{0,99}", re.ASCII)  # of a kernel: a name of a file and a word of a command
RUN_S = 900  # for one program; the slowest, mkfs.erofs, takes 20 s
OUTPUT = 1 << 20  # bytes that a program may say


@contextlib.contextmanager
def umask() -> Iterator[None]:
    """What is made meanwhile has usual modes, also by a user with others."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def entered(root: Path, words: list[str], mounts: Mapping[str, Path]) -> list[str]:
    """The command that runs `words` in namespaces of their own, with this root. mounts: {name in the root: place}."""
    pairs = [f"{place.absolute()}={name}" for name, place in mounts.items()]
    return [sys.executable, "-I", "-S", enter.__file__, str(root.absolute()), *pairs, "--", *words]


def not_entered(said: str) -> UserError:
    """The error for the user when there are no namespaces. said: by enter.py."""
    return UserError(
        f"cannot enter the root of locked packages ({cut(said, 60)}): it needs user namespaces. Allow them "
        "(kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or build as root."
    )


def run(tree: Path, program: str, /, *words: str, loader: tuple[str, ...] = (), **folders: Path) -> str:
    """The output of a program of a tree, by the tree's own loader, or of the loader itself where it has options.

    It runs in namespaces of its own, where the tree is the root, and sees of this machine only these folders, by their
    names there. Raises UserError when it fails.
    """
    for name in folders:
        Folder(tree).folder(name)
    command = ["--inhibit-cache", "--argv0", Path(program).name, "--library-path", LIBRARIES, *loader, program, *words]
    with subprocess.Popen(
        entered(tree, [f"/{LOADER}", *command], folders),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
        preexec_fn=end_with_parent,
    ) as process:
        timer = threading.Timer(RUN_S, process.kill)
        timer.start()
        try:
            assert process.stdout
            output = process.stdout.read(OUTPUT)
            if len(output) < OUTPUT:
                process.wait()
        finally:
            timer.cancel()
            process.kill()
    text = output.decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if process.returncode == enter.FAILED and lines and lines[-1].startswith("enter: "):
        raise not_entered(lines[-1])
    if process.returncode:
        said = lines[-1] if lines else f"exit code {process.returncode}"
        if process.returncode == -signal.SIGKILL:
            said = f"it ran longer than {RUN_S} s, or said more than {OUTPUT:,} bytes"
        raise UserError(f"{Path(program).name} of the locked packages failed: {cut(said, 150)}")
    return text


def finish(tree: Folder, guest: Guest, release: str) -> None:
    """All but the modules. release: of the kernel."""
    for folder in FOLDERS:
        tree.folder(folder)
    tree.folder("tmp", 0o1777)
    for name, text in FILES.items():
        tree.write(name, text.encode())
    tree.write("etc/passwd", tree.read("usr/share/base-passwd/passwd.master") + USERS.encode())
    tree.write("etc/group", tree.read("usr/share/base-passwd/group.master"))
    tree.write("etc/modprobe.d/reprofs.conf", "".join(f"{line}\n" for line in guest.modprobe).encode())
    tree.write("etc/modules-load.d/reprofs.conf", "".join(f"{module}\n" for module in guest.preload).encode())
    tree.remove("etc/resolv.conf")
    for name, target in LINKS.items():
        tree.link(name, target)
    run(tree.root, "usr/sbin/ldconfig", "-i")
    tree.remove("var/cache/ldconfig")  # inode numbers and times of this machine
    depmod(tree, tree, release)


def depmod(tools: Folder, tree: Folder, release: str) -> None:
    """Writes what the modules of a tree depend on, beside them; tools: a tree that has depmod."""
    program = "usr/bin/depmod" if tools.kind("usr/bin/depmod") else "usr/sbin/depmod"
    if tools is tree:
        run(tree.root, program, release)
    else:
        run(tools.root, program, "-b", "/tree", release, tree=tree.root)


def plain_modules(tree: Folder, release: str) -> None:
    """Unpacks the kernel's modules and takes off their signatures: in the guest that would cost more instructions than
    the module itself.

    A signature is at the end of a file: data, 12 bytes whose last four are the size of the data, a line of text
    (scripts/sign-file.c of Linux). Raises UserError when a module is no file, is damaged, or all are too large.
    """
    room = ROOM
    for name in tree.files(f"{MODULES}/{release}"):
        if ".ko" not in posixpath.basename(name):
            continue
        if tree.kind(name) != stat.S_IFREG:
            raise UserError(f"{middle(ascii(name)[1:-1])} is a link or device: a kernel's modules must be files.")
        data = tree.read(name)
        if name.endswith(".xz"):
            room += RATIO * len(data)
            tree.remove(name)
            name, data = name.removesuffix(".xz"), unxz(name, data, room)
            room -= len(data)
        if data.endswith(SIGNED):
            size = int.from_bytes(data[-len(SIGNED) - 4 : -len(SIGNED)], "big")
            data = data[: -len(SIGNED) - 12 - size]
        tree.write(name, data)


def release_of(tree: Folder, where: str = "the guest", todo: str = "leave one in envs/guest.yaml") -> str:
    """The release of the tree's only kernel, whose modules are in a folder, with no link on the way. Raises UserError.

    where, todo: what the sentence names, and asks for.
    """
    found = tree.names(MODULES)
    if len(found) != 1:
        raise UserError(f"{where}: the packages have modules of {len(found)} kernels: {todo}.")
    (release,) = found
    if not RELEASE.fullmatch(release):
        raise UserError(f"{where}: {cut(ascii(release), 60)} is no release of a kernel: correct the package.")
    if any(tree.kind(name) != stat.S_IFDIR for name in (MODULES, f"{MODULES}/{release}")):
        raise UserError(f"{where}: {MODULES}/{release} is no folder, or behind a link: correct the package.")
    return release


SKIP = re.compile(SKIPPED)
