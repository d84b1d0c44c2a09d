"""Commands of descriptors: templates with {placeholders}, and the words that they become."""

import functools
import re
import shlex
from collections.abc import Sequence

from reprofs.errors import FileError, cut, several, short

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
BRACES = {"{{": "{", "}}": "}", "{}": "{}"}


def expand(command: str, values: dict[str, str], where: str) -> list[str]:
    """`command` as a list of words, with {placeholders} filled in; a value of several words becomes several words.

    Raises FileError, beginning with `where`, for an unknown placeholder or unbalanced quotes.
    """
    result: list[str] = []
    for word in _split(command, where):
        if word.startswith("{") and word.endswith("}") and word[1:-1] in values:
            result += _split(values[word[1:-1]], f"{where}: {word}")
        else:
            result.append(fill(word, values, where))
    return result


def argv(command: str, values: dict[str, str], where: str) -> list[str]:
    """Like `expand`, for a command to be run. Raises FileError also when no program is left to run."""
    words = expand(command, values, where)
    if not words or not words[0]:
        raise FileError(f"{where}: {short(command)} has no program to run: begin with its name.")
    try:
        engine_calls(words)
    except ValueError as error:
        raise FileError(f"{where}: {error}: correct it.") from None
    return words


def _split(text: str, where: str) -> list[str]:
    try:
        return list(_words(text))
    except ValueError as error:
        reason = str(error)[0].lower() + str(error)[1:]
        raise FileError(f"{where}: {short(text)} cannot be split into words: {reason}: complete it.") from None


@functools.lru_cache(1024)
def _words(text: str) -> tuple[str, ...]:
    """The same few commands are in every trial of a study."""
    return tuple(shlex.split(text))


def fill(text: str, values: dict[str, str], where: str) -> str:
    """`text` with its {placeholders} filled in; {{, }} and {} are braces.

    Raises FileError, beginning with `where`, for an unknown placeholder.
    """

    def one(found: re.Match) -> str:
        if found[0] in BRACES:
            return BRACES[found[0]]
        if found[1] in values:
            return values[found[1]]
        known = several(("{" + name + "}" for name in values), 70)
        raise FileError(
            f"{where}: {cut(short(text), 50)} has an unknown placeholder; known: {known}. A brace is written twice: "
            "{{ or }}; {} is as it is."
        )

    return PLACEHOLDER.sub(one, text)


def engine_calls(argv: Sequence[str]) -> list[list[str]]:
    """The words after `engine` in a command, and after each $ENGINE in its scripts: a program and its arguments.

    Raises ValueError for a script with unbalanced quotes.
    """
    if argv and argv[0] == "engine":
        return [list(argv[1:])]
    return [call for word in argv if "$ENGINE" in word for call in _calls_of(word)]


def _calls_of(script: str) -> list[list[str]]:
    try:
        return _calls(script)
    except ValueError as error:
        raise ValueError(f"{short(script)} is not a valid shell script: {error}") from None


def _calls(script: str) -> list[list[str]]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    calls: list[list[str]] = []
    inside = False
    for word in lexer:
        if word == "$ENGINE":
            calls.append([])
            inside = True
        elif inside and (set(word) <= set("|&;<>()") or re.fullmatch(r"[0-9]*[<>].*", word)):
            inside = False
        elif inside:
            calls[-1].append(word)
    return calls
