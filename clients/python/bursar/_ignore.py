"""Patterns of .bursarignore: the syntax of .gitignore, in one file at the top of the folder.

Unlike in git, `?` and `[…]` match a character, not a byte of it.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple

#: Left out, unless a line brings it back, such as `!bursar.yaml`. The command line leaves out the same.
DEFAULT_PATTERNS = [".git", "/.bursar", "/.bursarignore", "/bursar.yaml", ".DS_Store"]


class _Rule(NamedTuple):
    pattern: "re.Pattern[str]"
    is_negated: bool
    only_folders: bool


class IgnoreRules:
    """Decides about paths. A folder that is ignored must not be entered: nothing below it can be included again."""

    def __init__(self, text: str) -> None:
        lines = [*DEFAULT_PATTERNS, *text.split("\n")]
        self._rules = [rule for rule in map(_parse_line, lines) if rule is not None]

    def ignores(self, path: str, is_folder: bool) -> bool:
        """`path` is relative to the folder, with slashes. The last rule that matches decides."""
        for rule in reversed(self._rules):
            if rule.only_folders and not is_folder:
                continue
            if rule.pattern.fullmatch(path):
                return not rule.is_negated
        return False


def _parse_line(line: str) -> Optional[_Rule]:
    line = _strip_trailing_spaces(line[:-1] if line.endswith("\r") else line)
    if line == "" or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    if is_negated:
        line = line[1:]
    only_folders = line.endswith("/")
    if only_folders:
        line = line[:-1]
    # A slash before the end ties the pattern to the folder of the file; other patterns match at any depth.
    is_anchored = "/" in line
    if line.startswith("/"):
        line = line[1:]
    translated = _translate(line)
    if line == "" or translated is None:
        return None
    prefix = "" if is_anchored else "(?:.*/)?"
    return _Rule(re.compile(prefix + translated, re.DOTALL), is_negated, only_folders)


def _strip_trailing_spaces(line: str) -> str:
    """Trailing spaces do not count, unless a backslash is in front of them."""
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    if backslashes % 2 == 1 and len(stripped) < len(line):
        return stripped + " "
    return stripped


def _translate(pattern: str) -> Optional[str]:
    """A regular expression for the pattern. None if nothing can match it."""
    result: List[str] = []
    index = 0
    while index < len(pattern):
        if pattern.startswith("**", index) and (index == 0 or pattern[index - 1] == "/"):
            end = index + 2
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            if end == len(pattern):
                result.append(".*" if index == 0 else ".+")
                return "".join(result)
            if pattern[end] == "/":
                result.append("(?:.*/)?")
                index = end + 1
                continue
        character = pattern[index]
        index += 1
        if character == "*":
            result.append("[^/]*")
        elif character == "?":
            result.append("[^/]")
        elif character == "[":
            group = _translate_class(pattern, index)
            if group is None:
                return None
            text, index = group
            result.append(text)
        elif character == "\\":
            if index == len(pattern):
                return None
            result.append(re.escape(pattern[index]))
            index += 1
        else:
            result.append(re.escape(character))
    return "".join(result)


_NAMED_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


def _translate_class(pattern: str, index: int) -> Optional[Tuple[str, int]]:
    """Translates `[…]`, from behind the bracket. Returns the expression and the index behind it; None if it is not closed."""
    is_negated = pattern[index : index + 1] in ("!", "^")
    if is_negated:
        index += 1
    members: List[str] = []
    is_first = True
    while True:
        if index >= len(pattern):
            return None
        character = pattern[index]
        if character == "]" and not is_first:
            index += 1
            break
        is_first = False
        named = re.compile(r"\[:(\w*):\]").match(pattern, index)
        if named:
            if named.group(1) not in _NAMED_CLASSES:
                return None
            members.append(_NAMED_CLASSES[named.group(1)])
            index = named.end()
            continue
        low, index = _class_character(pattern, index)
        if low is None:
            return None
        if pattern[index : index + 1] == "-" and pattern[index + 1 : index + 2] not in ("", "]"):
            high, index = _class_character(pattern, index + 1)
            if high is None:
                return None
            # As in git, a range that runs backwards still has its first character.
            members.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low))
            continue
        members.append(re.escape(low))
    body = "".join(members)
    if is_negated:
        return f"[^/{body}]", index
    return f"(?!/)[{body}]", index


def _class_character(pattern: str, index: int) -> Tuple[Optional[str], int]:
    if pattern[index] != "\\":
        return pattern[index], index + 1
    if index + 1 >= len(pattern):
        return None, index
    return pattern[index + 1], index + 2
