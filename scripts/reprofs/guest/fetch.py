"""The packages of a lock -> files of the cache, from whatever mirror has them: the digest is the trust.

Mirrors in order: those of this machine's apt, where it has apt; then those that REPROFS_MIRROR names, such as an
archive of old versions at the lock's date.

The lock knows how large each file is: nothing longer is read, and nothing for longer than the slowest line needs. A
download that breaks off is tried again, then the next mirror; one that is silent or too slow is not asked again.
A connection serves many files: where a look-up of the mirror's name takes long, it is waited for once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprofs.errors import UserError, cut
from reprofs.files import write_bytes
from reprofs.guest.cache import locked
from reprofs.guest.lock import LOCK, Lock, Package

Progress = Callable[[str], None]

VARIABLE = "REPROFS_MIRROR"
AT_ONCE = 8
TRIES = 3
SILENCE_S = 30.0  # so long a mirror may send nothing
ANSWER_S = 60.0  # for a whole file, besides what its size takes
SLOWEST = 10_000  # bytes a second
TOLD_S = 5.0  # how often it is said how far it is


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
    if not missing:
        return
    from concurrent.futures import ThreadPoolExecutor, wait  # a trial does not wait for these and for urllib

    all_mb = sum(package.size for package in missing) / 1e6
    say(f"fetching {len(missing)} packages, {all_mb:.0f} MB")
    mirrors = _Mirrors(mirrors_of_this_machine())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(_fetch, mirrors, package, files[package.name]) for package in missing]
        try:
            while wait(asked, TOLD_S).not_done:
                done = sum(one.done() for one in asked)
                say(f"fetching: {done} of {len(missing)} packages, {mirrors.read / 1e6:.0f} of {all_mb:.0f} MB")
            said = [one.result() for one in asked]
        finally:
            pool.shutdown(cancel_futures=True)
    gone = [(package, why) for package, why in zip(missing, said, strict=True) if why]
    if gone:
        raise _gone(gone, len(packages), mirrors.names, lock.date)


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
    import urllib.request

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


@dataclass
class _Mirrors:
    """Where to ask. failed: those that are not asked again, and why; read: bytes that came from all of them."""

    names: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    read: int = 0

    def __post_init__(self) -> None:
        proxies = _proxies()
        self.pools = {name: _pool(name, proxies) for name in self.names}

    def open(self, mirror: str, path: str) -> Any:
        """What the mirror has there, to be read and closed. Raises _Refused, OSError and what urllib3 raises."""
        import urllib.parse
        import urllib.request

        import urllib3

        address = f"{mirror.rstrip('/')}/{urllib.parse.quote(path, safe='/~+:')}"
        if address.startswith("file:"):
            return Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path)).open("rb")
        answer = self.pools[mirror].request(
            "GET",
            address,
            preload_content=False,
            decode_content=False,
            enforce_content_length=False,  # who reads knows the length
            timeout=urllib3.Timeout(connect=SILENCE_S, read=SILENCE_S),
            retries=urllib3.Retry(connect=False, read=False, other=False, respect_retry_after_header=False),
        )
        if answer.status != 200:
            answer.close()
            raise _Refused(answer.status, answer.reason)
        return answer


def _pool(mirror: str, proxies: dict[str, str]) -> Any:
    """Its connections, which are kept."""
    import urllib.request

    import urllib3

    address = urllib3.util.parse_url(mirror)
    if not (proxy := proxies.get(address.scheme or "")) or urllib.request.proxy_bypass(address.netloc or ""):
        return urllib3.PoolManager(maxsize=AT_ONCE)
    login = urllib3.util.make_headers(proxy_basic_auth=urllib3.util.parse_url(proxy).auth)
    return urllib3.ProxyManager(proxy, maxsize=AT_ONCE, proxy_headers=login)


class _Refused(Exception):
    """A mirror has answered with another status than 200; its arguments are this and its reason."""


class _Slow(Exception):
    """A mirror was silent, or would have sent for ever."""


def _fetch(mirrors: _Mirrors, package: Package, file: Path) -> str:
    """Fetches one; why no mirror gave it, or nothing."""
    from urllib3.exceptions import HTTPError

    why = "no mirror is known"
    # Debian keeps updates for security in an archive of their own, below pool/updates.
    security = package.path.startswith("pool/updates/")
    for mirror in sorted(mirrors.names, key=lambda mirror: ("security" in mirror) != security):
        for _ in range(TRIES):
            if mirror in mirrors.failed:
                why = mirrors.failed[mirror]
                break
            try:
                content = _content(mirrors, mirror, package)
            except _Slow as error:
                why = mirrors.failed[mirror] = f"{mirror}: {error}"
                break
            except _Refused as error:
                status, reason = error.args
                why = f"{mirror}: {status} {reason}"
                if status < 500:
                    break
                continue
            except (OSError, ValueError, HTTPError) as error:
                why = f"{mirror}: {error.args[-1] if isinstance(error, HTTPError) else error}"  # the last is the cause
                continue
            if len(content) < package.size:
                why = f"{mirror}: it broke off after {len(content):,} of {package.size:,} bytes"
                continue
            if hashlib.sha256(content).hexdigest() != package.sha256:
                why = f"{mirror}: not the SHA-256 of the lock"
                break
            write_bytes(file, content)
            return ""
    return why


def _content(mirrors: _Mirrors, mirror: str, package: Package) -> bytes:
    """What is there, at most a byte more than the package has. Raises _Slow, and what `open` raises.

    It is read in a thread, which is left behind where it waits for ever, be it for a name or for headers.
    """
    from urllib3.exceptions import TimeoutError

    size = package.size
    limit, found = ANSWER_S + size / SLOWEST, queue.SimpleQueue[bytearray | BaseException]()
    given_up = threading.Event()

    def read() -> None:
        content = bytearray()
        try:
            with contextlib.closing(mirrors.open(mirror, package.path)) as answer:
                while (
                    len(content) <= size and not given_up.is_set() and (part := answer.read1(size + 1 - len(content)))
                ):
                    content += part
                    mirrors.read += len(part)
            found.put(content)
        except BaseException as error:  # raised again by who waits
            found.put(error)

    threading.Thread(target=read, daemon=True).start()
    try:
        got = found.get(timeout=limit)
    except queue.Empty:
        given_up.set()
        raise _Slow(f"{size:,} bytes took more than {limit:.0f} s") from None
    if isinstance(got, TimeoutError):
        raise _Slow(f"it sent nothing for {SILENCE_S:.0f} s")
    if isinstance(got, BaseException):
        raise got
    return bytes(got)


def _gone(gone: list[tuple[Package, str]], count: int, mirrors: list[str], date: str) -> Gone:
    names = ", ".join(f"{package.name} {package.version}" for package, _ in gone[:3])
    return Gone(
        f"{len(gone)} of {count} packages of {LOCK} are on none of {len(mirrors)} mirrors, first {names} "
        f"({cut(gone[0][1], 120)}): check the network. Or set {VARIABLE} to mirrors that keep old versions (as "
        f"of {date}): one for Debian, one for security updates."
    )
