"""Debian packages -> an unpacked tree, by mmdebstrap and from the mirrors of this machine's apt."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from reprofs.errors import UserError
from reprofs.guest.shell import script
from reprofs.plan.guest import Guest
from reprofs.workplace import end_with_parent, workplace

EPOCH = 1577836800  # 2020-01-01, the guest's first second too: no file is ever from the future
# tar stops reading at the end of the archive, before its padding: SIGPIPE would kill whoever still writes that.
DRAINED = '"$@" && cat > /dev/null'
HEARTBEAT_S = 10
Progress = Callable[[str], None]


def apt_mirrors(suite: str, component: str = "") -> list[str]:
    """Lines of a sources list for `suite`, with the mirrors of this machine's apt. Raises UserError when it has none.

    component: one besides main, or empty.
    """
    listing = apt_targets()
    if not listing:  # as after a clean-up of /var/lib/apt/lists: apt knows its sources but none of their indexes
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "lists/partial").mkdir(parents=True)
            state = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}"]
            output_of(["apt-get", "update", *state])
            listing = apt_targets(*state)
    lines = []
    for line in listing:
        created_by, part, origin, release, uri = line.split("|")
        if created_by != "Packages" or part != "main" or origin not in ("Debian", "$(ORIGIN)", ""):
            continue
        security = release.endswith("-security")
        if security and suite in ("sid", "unstable"):
            continue  # Debian keeps no security archive for it
        target = f"{suite}-security" if security else suite
        lines.append(f"deb {uri} {target} main {component}".rstrip())
    if not any(line.split()[2] == suite for line in lines):
        raise UserError(
            "the apt configuration of this machine names no Debian mirror to take the guest's packages from "
            f"(apt-get indextargets gives {len(listing)} indexes); "
            "add one to /etc/apt/sources.list.d and run apt-get update"
        )
    return sorted(set(lines))


def apt_targets(*options: str) -> list[str]:
    """One line for each index that apt has fetched: creator, component, origin, release, mirror."""
    fields = "$(CREATED_BY)|$(COMPONENT)|$(ORIGIN)|$(RELEASE)|$(REPO_URI)"
    return output_of(["apt-get", *options, "indextargets", "--format", fields]).splitlines()


def apt_options() -> list[str]:
    """The options by which this machine's apt reaches its mirrors (proxies, retries, date checks), as in apt.conf."""
    names = r"Acquire::(https?::|Retries|ForceIPv|Check-|Max-FutureTime|Languages)"
    lines = output_of(["apt-config", "dump"]).splitlines()
    return [line for line in lines if re.match(names, line) and '""' not in line]


def check_tools() -> None:
    """Raises UserError for a missing program that builds images."""
    tools = {"mmdebstrap": "mmdebstrap", "mkfs.erofs": "erofs-utils", "tar": "tar", "unshare": "util-linux"}
    for tool, package in {**tools, "apt-get": "apt"}.items():
        if shutil.which(tool) is None:
            raise UserError(f"{tool} is missing, which builds the guest image; install the Debian package {package}")


def versions(lock: bytes) -> dict[str, str]:
    """Package -> version, from lines package=version."""
    return dict(line.split("=", 1) for line in lock.decode().splitlines())


def unpack(
    target: Path,
    guest: Guest,
    packages: list[str],
    hook: str,
    mirrors: list[str],
    say: Progress,
    *,
    folder: str = "",
    pin: str = "",
) -> None:
    """Unpack packages into the empty folder `target`, owned by the caller and without device files.

    hook: the text of a shell script that is run on the unpacked tree first; folder: take only this one of the tree;
    pin: apt's preferences, see apt_preferences(5).
    """
    # As root mmdebstrap mounts the machine's own /dev/shm, /sys and more in the tree. In namespaces of its own those
    # mounts and all its processes end with it, also when it is killed: nothing is removed through a forgotten mount.
    # The machine's apt is read only there: without its own configuration mmdebstrap would empty the machine's lists.
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    apart += ["sh", "-ec", script("apt-read-only"), "sh"]
    command = [
        *(apart if os.geteuid() == 0 else []),
        "mmdebstrap",
        "--mode=auto",
        "--format=tar",
        "--architectures=amd64",
    ]
    command += [f"--variant={guest.variant}", f"--include={','.join(packages)}"]
    command += ['--aptopt=APT::Install-Recommends "false"']
    # As text, because the root of a user namespace may not be able to read the project's folder.
    command += [*(f"--aptopt={option.rstrip(';')}" for option in apt_options()), f"--extract-hook={hook}"]
    if pin:
        command += [f'--setup-hook=printf %s {shlex.quote(pin)} > "$1"/etc/apt/preferences.d/reprofs']
    command += [guest.suite, "-", *mirrors]
    unpack = ["tar", "--extract", "--preserve-permissions", "--no-same-owner", "--exclude=./dev/*"]
    unpack += [f"--directory={target}", *(["--strip-components=2", f"./{folder}"] if folder else [])]
    with workplace() as place:
        place.chmod(0o755)  # the root of a user namespace is another user
        sweep(place.parent)
        pipe(command, unpack, place, mirrors, say)


def sweep(base: Path) -> None:
    """Remove what killed builds without root left in `base`: files of other user ids, which need a user namespace.

    `workplace` has already removed what this user may remove, including the file `owner`. Folders of other users are
    left alone.
    """
    for left in base.glob("reprofs-work-*") if os.geteuid() else ():
        if left.lstat().st_uid == os.geteuid() and not (left / "owner").exists():
            for inside in (["mmdebstrap", "--unshare-helper"], []):
                command = [*inside, "rm", "-rf", "--one-file-system", "--", str(left)]
                subprocess.run(command, capture_output=True, preexec_fn=end_with_parent)


def pipe(command: list[str], unpack: list[str], place: Path, mirrors: list[str], say: Progress) -> None:
    """Run mmdebstrap (command) into tar (unpack). place: where mmdebstrap works."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8", "TMPDIR": str(place)}
    environment["REPROFS_PLACE"] = str(place)  # by which reprofs.cleanup knows processes that outlive a kill
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            preexec_fn=end_with_parent,
        ) as debs,
        subprocess.Popen(
            ["sh", "-c", DRAINED, "sh", *unpack],
            stdin=debs.stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        ) as tar,
    ):
        assert debs.stdout and debs.stderr and tar.stderr  # they are pipes
        heard_of, trouble_of = debs.stderr, tar.stderr
        debs.stdout.close()  # only tar has it now, so that mmdebstrap notices when tar ends early
        lines: list[str] = []
        heard, what = time.monotonic(), "starting"
        compiled = 0

        def listen() -> None:
            nonlocal compiled, heard, what
            for line in heard_of:
                lines.append(line.rstrip())
                compiled += line.startswith("  CC ")
                if re.match(r"I: (running (apt|co|the co)|downloading|extracting|cleaning|creating)", line):
                    heard, what = time.monotonic(), line[3:].rstrip()
                    say(what)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        while listener.is_alive():
            listener.join(1)
            if time.monotonic() - heard > HEARTBEAT_S:
                heard = time.monotonic()
                say(f"still {what}" + (f", {compiled} files are compiled" if compiled else ""))
        trouble = trouble_of.read()
        codes = debs.wait(), tar.wait()
    if codes[1] and codes[0] in (0, -13):
        raise UserError(f"the guest's files could not be unpacked into the cache: {last_line(trouble)}")
    if codes[0]:
        raise unpack_error(lines, mirrors)


def unpack_error(lines: list[str], mirrors: list[str]) -> UserError:
    """The error for the user that follows from mmdebstrap's messages."""
    text = re.split(r"(?:E: setup failed: )?E: command failed: #!", "\n".join(lines))[0]  # the hook's text follows
    places = " and ".join(sorted({line.split()[1] for line in mirrors}))
    if "No space left on device" in text:
        return UserError(
            f"no disk space left in {tempfile.gettempdir()} while building the guest image; free some or set TMPDIR"
        )
    compiling = "".join(re.split(r"^I: running (?:configure|the compiler)", text, flags=re.MULTILINE)[1:])
    wrong = re.search(r"^(.*\berror:)[\s*]*(.*)|^make.*\*\*\* \[(.*)", compiling, re.MULTILINE)
    if wrong:
        return UserError(
            f"the guest's kernel modules could not be compiled: {' '.join(filter(None, wrong.groups()))}; "
            "choose a suite in envs/guest.yaml whose kernel and modules fit each other"
        )
    if re.search(r"Version '.*' for '.*' was not found", text):
        return UserError(f"the mirror {places} has newer packages since this build began; build the guest again")
    if "Unable to locate package" in text or "has no installation candidate" in text:
        names = re.findall(r"(?:locate package|Package '?)\s*([a-z0-9+.-]+)", text)
        components = " ".join(dict.fromkeys(word for line in mirrors for word in line.split()[3:]))
        return UserError(
            f"the mirror {places} ({components}) has no package {', '.join(dict.fromkeys(names))}; "
            "correct packages in envs/guest.yaml"
        )
    if "does not have a Release file" in text or re.search(r"apt-get.*update.*failed", text):
        fetch = re.findall(r"Failed to fetch \S+\s+(.*)", text) or re.findall(
            r"^(?:E|Err|W): *(.*)", text, re.MULTILINE
        )
        why = f" ({fetch[0].strip()})" if fetch else ""
        return UserError(
            f"the Debian mirror {places} cannot be used{why}; check the network and the machine's apt configuration"
        )
    if "unable to pick chroot mode" in text or "newuidmap" in text or "subuid" in text:
        return UserError(
            "without root mmdebstrap needs user namespaces; install the Debian package uidmap, or build as root"
        )
    # Its last line says only that it failed; the cause is in the lines before.
    causes = [line for line in lines if re.match(r"(E|tar|sh|make.*\*\*\*|dpkg-deb|chroot): ", line)]
    empty = ("mmdebstrap failed to run", "command failed: #!")
    causes = [line.strip() for line in causes if not any(words in line for words in empty)] or [last_line(text)]
    return UserError(f"mmdebstrap could not build the guest image: {'; '.join(causes[-3:])}")


def output_of(command: list[str]) -> str:
    """The output of a command of apt's. Raises UserError when it fails or is missing."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise UserError(
            f"{command[0]} is missing; the guest image is built from the packages of a machine with Debian's apt"
        ) from None
    except subprocess.CalledProcessError as error:
        raise UserError(f"{' '.join(command[:2])} failed: {last_line(error.stderr)}") from None


def last_line(text: str) -> str:
    """The last line of what a program complained of, for a sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("I:")]
    return lines[-1] if lines else "no message"
