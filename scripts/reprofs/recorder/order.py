"""Whether a program visits files in the order in which the file system lists them: on another it would have another."""

from __future__ import annotations

from collections.abc import Iterable

LEAST = 20  # pairs of visits to judge by
SHARE = 0.9  # of them that go the same way


class Order:
    """Takes what is listed and what is visited, with real paths, while the program runs."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}  # folder -> name -> its place as listed, until it is visited
        self._seen: dict[str, set[str]] = {}  # folder -> names that were listed
        self._last: dict[str, tuple[int, str]] = {}
        self._pairs = self._as_listed = self._as_sorted = 0

    def knows(self, folder: str) -> bool:
        """Whether a folder was listed."""
        return folder in self._seen

    def listed(self, folder: str, names: Iterable[str]) -> None:
        """The program lists a folder, or more of it. names: of what is in it, in the order of the listing."""
        seen, places = self._seen.setdefault(folder, set()), self._places.setdefault(folder, {})
        for name in names:
            if name not in seen:
                places[name] = len(seen)
                seen.add(name)

    def visited(self, path: str) -> None:
        """The program names something for the first time, or again."""
        folder, _, name = path.rpartition("/")
        place = self._places.get(folder, {}).pop(name, None)
        if place is None:
            return
        if last := self._last.get(folder):
            self._pairs += 1
            self._as_listed += place > last[0]
            self._as_sorted += name > last[1]
        self._last[folder] = (place, name)

    def is_that_of_listings(self) -> bool:
        """Whether most first visits went as listed, and not by name."""
        enough = self._pairs * SHARE
        return self._pairs >= LEAST and self._as_listed >= enough > self._as_sorted
