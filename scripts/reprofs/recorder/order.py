"""Whether a program visits files in the order in which the file system lists them: on another it would have another."""

from __future__ import annotations

import os

LEAST = 20  # pairs of visits to judge by
SHARE = 0.9  # of them that go the same way


class Order:
    """Takes what is listed and what is visited, with real paths, while the program runs."""

    def __init__(self) -> None:
        self._ranks: dict[str, dict[str, tuple[int, int]]] = {}  # folder -> name -> its place as listed, and as sorted
        self._last: dict[str, tuple[int, int]] = {}
        self._pairs = self._as_listed = self._as_sorted = 0

    def listed(self, folder: str) -> None:
        """The program lists a folder; the system lists it to others in the same order."""
        if folder in self._ranks:
            return
        try:
            names = [entry.name for entry in os.scandir(folder)]
        except OSError:  # gone meanwhile
            return
        as_sorted = {name: place for place, name in enumerate(sorted(names))}
        self._ranks[folder] = {name: (place, as_sorted[name]) for place, name in enumerate(names)}

    def visited(self, path: str) -> None:
        """The program names something for the first time, or again."""
        folder, _, name = path.rpartition("/")
        here = self._ranks.get(folder, {}).pop(name, None)
        if here is None:
            return
        if last := self._last.get(folder):
            self._pairs += 1
            self._as_listed += here[0] > last[0]
            self._as_sorted += here[1] > last[1]
        self._last[folder] = here

    def is_that_of_listings(self) -> bool:
        """Whether most first visits went as listed, and not by name."""
        enough = self._pairs * SHARE
        return self._pairs >= LEAST and self._as_listed >= enough > self._as_sorted
