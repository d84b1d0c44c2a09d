"""The packages of a lock -> files of the cache, from whatever mirror has them: the digest is the trust.

Mirrors in order: those of this machine's apt, where it has apt; then those that REPROFS_MIRROR names, such as an
archive of old versions at the lock's date.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.files import write_bytes
from reprofs.guest.cache import locked
from reprofs.guest.lock import LOCK, Lock, Package

Progress = Callable[[str], None]

VARIABLE = "REPROFS_MIRROR"
AT_ONCE = 8
TRIES = 3
ANSWER_S = 60


class Gone(UserError):
    """No mirror has a package of the lock."""


def fetch(cache: Path, lock: Lock, packages: Iterable[Package], say: Progress) -> dict[str, Path]:
    """Files of these packages, by name; what the cache does not have is fetched.

    Raises Gone naming the first packages that no mirror has, and nothing half-fetched stays.
    """
    packages = list(packages)
    folder = cache / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    files = {package.name: folder / package.sha256 for package in packages}
    # One at a time: what two guests need is not fetched twice.
    with locked(cache / "packages.lock"):
        _fetch_all(lock, files, packages, say)
    return files


def _fetch_all(lock: Lock, files: dict[str, Path], packages: list[Package], say: Progress) -> None:
    missing = [package for package in packages if not _whole(files[package.name], package)]
    if missing:
        say(f"fetching {len(missing)} packages, {sum(package.size for package in missing) / 1e6:.0f} MB")
        mirrors = mirrors_of_this_machine()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies()))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            said = list(pool.map(lambda package: _fetch(opener, mirrors, package, files[package.name]), missing))
        gone = [(package, why) for package, why in zip(missing, said, strict=True) if why]
        if gone:
            raise _gone(gone, len(packages), mirrors, lock.date)


def mirrors_of_this_machine() -> list[str]:
    """Addresses below which archives have pool/, in the order in which they are asked."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        asked = ["apt-get", "update", "--print-uris"]
        text = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        named = re.findall(r"'((?:https?|file):\S+?)/dists/", text)
        return list(dict.fromkeys([*named, *os.environ.get(VARIABLE, "").split()]))
    return os.environ.get(VARIABLE, "").split()


def _proxies() -> dict[str, str]:
    """The proxies of this machine's apt, if it names any; else those of the environment."""
    found = urllib.request.getproxies()
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        text = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
        found |= {
            scheme.lower(): address
            for scheme, address in re.findall(r'^Acquire::(https?)::Proxy "(.+)";$', text, re.MULTILINE | re.IGNORECASE)
            if address != "DIRECT"
        }
    return found


def _whole(file: Path, package: Package) -> bool:
    """Its bytes are compared with its digest when it is unpacked."""
    return file.is_file() and file.stat().st_size == package.size


def _fetch(opener: urllib.request.OpenerDirector, mirrors: list[str], package: Package, file: Path) -> str:
    """Fetches one; why no mirror gave it, or nothing."""
    why = "no mirror is known"
    # Debian keeps updates for security in an archive of their own, below pool/updates.
    security = package.path.startswith("pool/updates/")
    for mirror in sorted(mirrors, key=lambda mirror: ("security" in mirror) != security):
        address = f"{mirror.rstrip('/')}/{urllib.parse.quote(package.path, safe='/~+:')}"
        for _ in range(TRIES):
            try:
                with opener.open(address, timeout=ANSWER_S) as answer:
                    content = answer.read()
            except urllib.error.HTTPError as error:
                why = f"{mirror}: {error.code} {error.reason}"
                if error.code < 500:
                    break
                continue
            except (OSError, ValueError) as error:
                why = f"{mirror}: {getattr(error, 'reason', error)}"
                continue
            if hashlib.sha256(content).hexdigest() != package.sha256:
                why = f"{mirror}: not the SHA-256 of the lock"
                break
            write_bytes(file, content)
            return ""
    return why


def _gone(gone: list[tuple[Package, str]], count: int, mirrors: list[str], date: str) -> Gone:
    names = ", ".join(f"{package.name} {package.version}" for package, _ in gone[:3])
    return Gone(
        f"{len(gone)} of {count} packages of {LOCK} are on none of {len(mirrors)} mirrors, first {names} "
        f"({cut(gone[0][1], 120)}): check the network. Or set {VARIABLE} to mirrors that keep old versions (as "
        f"of {date}): one for Debian, one for security updates."
    )
