"""Resolves the packages of a lock set with apt, in a separate root, from this machine's mirrors.

Nothing but `reprofs lock` comes here: what builds a guest needs no solver, no index and no signature, only digests.
"""

from __future__ import annotations

import re
import subprocess
import urllib.parse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.guest.lock import HEADERS, KERNEL, KERNEL_FILES, Lock, Package, Set, Wish, asked, package_of
from reprofs.workplace import scratch

# 'URI' file bytes SHA256:digest
LINE = re.compile(r"'(\S+)' (\S+) (\d+) SHA256:([0-9a-f]{64})")


def resolve(lock: Lock, wishes: dict[str, Wish], names: list[str], say: Callable[[str], None]) -> None:
    """Puts these sets into the lock, as the mirrors have them today, and its date. Raises UserError."""
    lock.date = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with scratch() as folder:
        roots: dict[tuple, _Apt] = {}
        for name, wish in wishes.items():
            if name not in names:
                continue
            say(f"{name}: {len(wish.wanted)} packages of Debian {' and '.join(wish.suites)} and what they need")
            key = (wish.suites, wish.component, wish.source)
            if key not in roots:
                roots[key] = _Apt(folder / str(len(roots)), wish)
            below = wishes[wish.below].wanted if wish.below else ()
            found = roots[key].closure(wish, below)
            if wish.below:
                known = {package.name for package in lock.sets[wish.below].packages}
                found = [package for package in found if package.name not in known]
            lock.sets[name] = Set(asked(wish), found)
    lock.sets = {name: lock.sets[name] for name in wishes if name in lock.sets}


class _Apt:
    """apt with lists, state and preferences of its own, but this machine's mirrors, keys and proxies."""

    def __init__(self, root: Path, wish: Wish) -> None:
        (root / "lists/partial").mkdir(parents=True)
        (root / "cache").mkdir()
        (root / "status").touch()
        lines = [line for suite in wish.suites for line in apt_mirrors(suite, wish.component)]
        lines = [line.replace("deb ", "deb [arch=amd64] ", 1) for line in lines]
        lines += [line.replace("deb [arch=amd64] ", "deb-src ", 1) for line in lines if wish.source]
        (root / "sources.list").write_text("".join(f"{line}\n" for line in lines))
        # The kernel and its modules come from the first suite, so that all guests have the same one.
        newer = "".join(
            f"Package: linux-image-* linux-headers-*\nPin: release n={suite}\nPin-Priority: -1\n\n"
            for release in wish.suites[1:]
            for suite in (release, f"{release}-security")
        )
        if wish.kernel:  # apt does not take from backports what others need, such as linux-base, unless it is told to
            newer += "".join(
                f"Package: *\nPin: release n={suite}\nPin-Priority: 990\n\n"
                for suite in (wish.suites[0], f"{wish.suites[0]}-security")
            )
        (root / "preferences").write_text(newer)
        self.bases = [line.split()[-3 - bool(wish.component)] for line in lines]
        self.options = [
            f"-oDir::Etc::SourceList={root}/sources.list",
            "-oDir::Etc::SourceParts=/dev/null",
            f"-oDir::Etc::Preferences={root}/preferences",
            "-oDir::Etc::PreferencesParts=/dev/null",
            f"-oDir::State::Lists={root}/lists",
            f"-oDir::State::status={root}/status",
            f"-oDir::Cache={root}/cache",
            "-oAPT::Architecture=amd64",
            "-oAPT::Architectures=amd64",
            "-oAPT::Install-Recommends=false",
            "-oAPT::Sandbox::User=root",
            "-oAcquire::Languages=none",
            "-oAcquire::ForceHash=SHA256",
        ]
        output_of(["apt-get", *self.options, "update", "-qq", "--error-on=any"])

    def closure(self, wish: Wish, below: tuple[str, ...]) -> list[Package]:
        """The wanted packages, those of the set below and what they need; and the files of the source package."""
        wanted = sorted([*wish.wanted, *below])
        text = output_of(["apt-get", *self.options, "install", "--yes", "-qq", "--print-uris", *wanted])
        found = [listed(line) for line in text.splitlines() if line.startswith("'")]
        if wish.source:
            text = output_of(["apt-get", *self.options, "source", "-qq", "--print-uris", wish.source])
            version = re.search(r"_([^_/\s]+)\.dsc ", text)
            if not version:
                raise UserError(f"Debian {wish.suites[0]} has no source of {wish.source}: choose another suite.")
            found += [listed(line, version[1]) for line in text.splitlines() if line.startswith("'")]
        kernels = [package for package in found if KERNEL_FILES.match(package.name)]
        if (KERNEL in wish.wanted or wish.kernel) and not kernels:
            name = wish.wanted[0] if wish.kernel else KERNEL
            raise UserError(f"Debian {wish.suites[0]} has no {name} with a kernel: choose another suite.")
        if wish.kernel:
            return sorted([*kernels, *(package for package in found if HEADERS.match(package.name))])
        return sorted(found)


def listed(line: str, source: str = "") -> Package:
    """The package of a line of `apt-get --print-uris`, or the file of a source package of this version.

    Raises UserError.
    """
    found = LINE.match(line)
    if not found:
        raise UserError(f"apt gave no SHA-256 for a package: {cut(line, 120)}; check its mirrors.")
    uri, file, size, digest = found.groups()
    place = urllib.parse.unquote(uri[uri.find("/pool/") + 1 :])
    try:
        name, version, arch = (file, source, "source") if source else file.removesuffix(".deb").split("_")
        return package_of(name, urllib.parse.unquote(version), arch, digest, size, place)
    except ValueError as error:
        raise UserError(f"apt names a package that is none: {cut(line, 100)} ({cut(error, 80)}).") from None


def apt_mirrors(suite: str, component: str = "") -> list[str]:
    """Lines of a sources list for `suite`, with the mirrors of this machine's apt. Raises UserError when it has none.

    component: one besides main, or empty.
    """
    listing = apt_targets()
    if not listing:  # as after a clean-up of /var/lib/apt/lists: apt knows its sources but none of their indexes
        with scratch() as folder:
            (folder / "lists/partial").mkdir(parents=True)
            state = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}"]
            output_of(["apt-get", "update", *state])
            listing = apt_targets(*state)
    lines = []
    for line in listing:
        created_by, part, origin, release, uri = line.split("|")
        if created_by != "Packages" or part != "main" or origin not in ("Debian", "$(ORIGIN)", ""):
            continue
        security = release.endswith("-security")
        if security and (suite in ("sid", "unstable") or suite.endswith("-backports")):
            continue  # Debian keeps no security archive for these
        target = f"{suite}-security" if security else suite
        lines.append(f"deb {uri} {target} main {component}".rstrip())
    if not any(line.split()[2] == suite for line in lines):
        raise UserError(
            f"apt knows no Debian mirror here (apt-get indextargets gives {len(listing)} indexes): add one to "
            "/etc/apt/sources.list.d and run apt-get update."
        )
    return sorted(set(lines))


def apt_targets(*options: str) -> list[str]:
    """One line for each index that apt has fetched: creator, component, origin, release, mirror."""
    fields = "$(CREATED_BY)|$(COMPONENT)|$(ORIGIN)|$(RELEASE)|$(REPO_URI)"
    return output_of(["apt-get", *options, "indextargets", "--format", fields]).splitlines()


def output_of(command: list[str]) -> str:
    """The output of a command of apt's. Raises UserError when it fails or is missing."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise UserError(f"{command[0]} is missing: run `reprofs lock` on a machine with Debian's apt.") from None
    except subprocess.CalledProcessError as error:
        said = [line.strip() for line in error.stderr.splitlines() if re.match("[EW]: ", line)] or [error.stderr]
        action = next((word for word in command[1:] if not word.startswith("-")), "")
        raise UserError(f"{command[0]} {action} failed: {cut('; '.join(said[:2]), 300)}") from None
