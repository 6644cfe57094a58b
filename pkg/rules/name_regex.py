"""Regular expressions over schema and table names (patterns that begin with ``~``).

Operators write them for Go's RE2 engine. Python's ``re`` has other rules in places, so that the same text could
match other tables: such places are translated, and what RE2 refuses (look-around, back-references) is refused.
"""

from __future__ import annotations

import re

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
# RE2's Perl classes are ASCII only, Python's are not.
_PERL_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_REFUSED_GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "(?#", "(?P=", "(?P>")
_FLAGS = re.compile(r"\(\?([imsU-]+)[:)]")
_LITERAL_ESCAPE = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x[0-9A-Fa-f]{2}|[0-7]{3}")


def compile_name_regex(pattern: str, *, case_sensitive: bool) -> re.Pattern[str]:
    """Compiles an RE2 pattern (without its ``~``); search with ``.search``, as RE2 does not anchor.

    Raises ``ValueError`` for text that RE2 refuses, or that has no counterpart here (``\\p{…}``, flag ``U``).
    """
    translated = _Translator(pattern).run()
    try:
        return re.compile(translated, 0 if case_sensitive else re.IGNORECASE)
    except re.error as exc:
        raise ValueError(f"regular expression {pattern!r}: {exc}") from exc


class _Translator:
    """One left-to-right pass; ``_at`` is the next character to translate."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._multiline = False

    def run(self) -> str:
        while self._at < len(self._pattern):
            self._step()
        return "".join(self._out)

    def _step(self) -> None:
        char = self._pattern[self._at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._character_class()
        elif char == "(":
            self._group()
        elif char == "$":
            # Without (?m), RE2's $ is the very end; Python's also matches before a last newline.
            self._emit(r"$" if self._multiline else r"\Z")
        elif char in "*+?}" and self._pattern[self._at + 1 : self._at + 2] == "+":
            raise self._error("a possessive quantifier")
        else:
            self._emit(char)

    def _emit(self, text: str, consumed: int = 1) -> None:
        self._out.append(text)
        self._at += consumed

    def _error(self, what: str) -> ValueError:
        return ValueError(f"regular expression {self._pattern!r}: {what} at offset {self._at} is not supported")

    def _group(self) -> None:
        rest = self._pattern[self._at :]
        if rest.startswith(_REFUSED_GROUPS):
            raise self._error("look-around, a back-reference, a comment or a conditional group")
        if rest.startswith("(?<"):
            self._emit("(?P<", 3)
            return
        flags = _FLAGS.match(rest)
        if flags is None:
            self._emit("(")
            return
        if "U" in flags[1]:
            raise self._error("the flag U")
        self._multiline = self._multiline or "m" in flags[1].partition("-")[0]
        self._emit(flags[0], len(flags[0]))

    def _escape(self) -> None:
        char = self._pattern[self._at + 1 : self._at + 2]
        if char == "Q":
            self._quoted_literal()
        elif char.lower() in _PERL_CLASSES and char:
            self._emit(f"[{'^' if char.isupper() else ''}{_PERL_CLASSES[char.lower()]}]", 2)
        elif char == "z":
            self._emit(r"\Z", 2)
        elif char in ("b", "B"):
            self._emit(rf"(?a:\{char})", 2)
        else:
            self._literal_escape()

    def _literal_escape(self) -> None:
        rest = self._pattern[self._at + 1 :]
        number = _LITERAL_ESCAPE.match(rest)
        if number:
            text = rf"\U{int(number[1], 16):08x}" if number[1] else "\\" + number[0]
            self._emit(text, len(number[0]) + 1)
        elif rest[:1] in tuple("afnrtvA") or (rest and not rest[0].isalnum()):
            self._emit("\\" + rest[0], 2)
        else:
            raise self._error(f"the escape \\{rest[:1]}")

    def _quoted_literal(self) -> None:
        end = self._pattern.find(r"\E", self._at)
        literal = self._pattern[self._at + 2 : end if end >= 0 else None]
        self._emit(re.escape(literal), len(literal) + 2 + (2 if end >= 0 else 0))

    def _character_class(self) -> None:
        # The members are collected first: \D, \W and \S inside a class need ASCII rules for the whole class.
        outer, self._out = self._out, []
        self._emit("[")
        if self._pattern[self._at : self._at + 1] == "^":
            self._emit("^")
        if self._pattern[self._at : self._at + 1] == "]":
            self._emit(r"\]")
        ascii_only = False
        while self._pattern[self._at : self._at + 1] != "]":
            if self._at >= len(self._pattern):
                raise ValueError(f"regular expression {self._pattern!r}: missing closing ]")
            ascii_only |= self._class_member()
        self._emit("]")
        members = "".join(self._out)
        self._out = [*outer, f"(?a:{members})" if ascii_only else members]

    def _class_member(self) -> bool:
        """Translates one member; true when it needs ASCII rules."""
        rest = self._pattern[self._at :]
        posix = re.match(r"\[:(\^?)(\w+):\]", rest)
        if posix:
            if posix[1] or posix[2] not in _POSIX_CLASSES:
                raise self._error(f"the class {posix[0]}")
            self._emit(_POSIX_CLASSES[posix[2]], len(posix[0]))
        elif rest.startswith("\\") and rest[1:2] in _PERL_CLASSES:
            self._emit(_PERL_CLASSES[rest[1]], 2)
        elif rest.startswith("\\") and rest[1:2] in ("D", "W", "S"):
            self._emit(rest[:2], 2)
            return True
        elif rest.startswith("\\"):
            self._literal_escape()
        else:
            self._emit("\\[" if rest[0] == "[" else rest[0])
        return False
