"""Replaces collations that the target lacks. Pure.

A name is replaced where the target has the same collation under another name, and where the task chooses another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pkg.ddl.rewrite import edited
from pkg.ddl.tokens import Dialect, Token, name_value, string_value, tokenize

#: Names of the same collation: by code points, with significant trailing blanks.
_ALIKE = MappingProxyType({"utf8mb4_0900_bin": "utf8mb4_nopad_bin", "utf8mb4_nopad_bin": "utf8mb4_0900_bin"})
#: MariaDB's collations for any charset, named without a charset.
_CONTEXTUAL = "uca1400_"
_USUAL_CHARSET = "utf8mb4"
#: "Unknown collation: 'x'"; TiDB also "Unsupported collation when new collation is enabled: 'x'".
_LACKS = re.compile(r"(?:unknown|unsupported) collation[^']*'(\w+_\w+)'", re.IGNORECASE)
_COLLATE = re.compile("collate", re.IGNORECASE)
#: MySQL's languages → MariaDB's.
_LANGUAGES = {
    "cs": "czech", "da": "danish", "de_pb": "german2", "eo": "esperanto", "es": "spanish", "es_trad": "spanish2",
    "et": "estonian", "hr": "croatian", "hu": "hungarian", "is": "icelandic", "la": "roman", "lt": "lithuanian",
    "lv": "latvian", "pl": "polish", "ro": "romanian", "sk": "slovak", "sl": "slovenian", "sv": "swedish",
    "tr": "turkish", "vi": "vietnamese",
}  # fmt: skip
_CODES = {language: code for code, language in _LANGUAGES.items()}
_UCA_9 = re.compile(r"utf8mb4(?:_(?P<language>\w+?))?_0900_(?P<kind>a[is]_c[is])")
_UCA_14 = re.compile(r"(?P<charset>\w+?)_uca1400(?:_(?P<language>[a-z]+2?))??(?:_nopad)?_(?P<kind>a[is]_c[is])")


@dataclass(frozen=True, slots=True)
class TargetCollations:
    """``known``: the target's, in lower case (empty: unknown); ``chosen``: the task's replacements for the
    upstream's."""

    known: frozenset[str] = frozenset()
    chosen: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, known: Iterable[str], chosen: Iterable[tuple[str, str]] = ()) -> TargetCollations:
        return cls(frozenset(name.lower() for name in known), {_older(name): instead for name, instead in chosen})

    def name_of(self, collation: str, charset: str = "") -> str:
        """The target's name of an upstream's collation; the text gives its ``charset`` ('' if not)."""
        name = collation.lower()
        full = f"{charset.lower() or _USUAL_CHARSET}_{name}" if name.startswith(_CONTEXTUAL) else name
        chosen = self.chosen.get(_older(name)) or self.chosen.get(_older(full))
        if chosen:
            return chosen
        if full in self.known:
            return collation
        return next((alike for alike in _spellings(full) if alike in self.known), collation)

    def in_text(self, sql: str, dialect: Dialect) -> str:
        """A statement with the target's names instead of the upstream's. Raises 36067 for an open quote."""
        if not _COLLATE.search(sql):
            return sql
        edits: list[tuple[int, int, str]] = []
        charset = ""
        tokens = tokenize(sql, dialect)
        for i, token in enumerate(tokens):
            if token.word == "CHARSET" or (token.word == "SET" and i and tokens[i - 1].word in ("CHARACTER", "CHAR")):
                charset = _value(tokens[i + 1 : i + 3], dialect)[1]
            elif token.word == "COLLATE":
                value, name = _value(tokens[i + 1 : i + 3], dialect)
                instead = self.name_of(name, charset)
                if instead != name:
                    edits.append((value.start, value.end, instead))
        return edited(sql, edits) if edits else sql


def _value(behind: list[Token], dialect: Dialect) -> tuple[Token, str]:
    """The name after a keyword, with or without "=" between them."""
    token = behind[1] if behind[0].text == "=" and len(behind) > 1 else behind[0]
    if token.kind in ("word", "name"):
        return token, name_value(token)
    return token, string_value(token, dialect) if token.kind == "string" else ""


def _older(name: str) -> str:
    """utf8mb3, and its collations, under their older names."""
    return re.sub(r"^utf8mb3(?=_|$)", "utf8", name.lower())


def _spellings(name: str) -> Iterable[str]:
    older = _older(name)
    yield older
    yield re.sub(r"^utf8(?=_|$)", "utf8mb3", older)
    if name in _ALIKE:
        yield _ALIKE[name]


def nearest(collation: str, known: Iterable[str]) -> str:
    """The most similar collation of the target, by name, to one that it lacks; '' if it lacks the charset too."""
    return next(iter(alike(collation, known)), "")


def alike(collation: str, known: Iterable[str]) -> list[str]:
    """The target's possible replacements for a collation that it lacks, the most similar first, by their names."""
    names = {name.lower() for name in known}
    found = (next((one for one in _spellings(name) if one in names), "") for name in _candidates(_older(collation)))
    return list(dict.fromkeys(filter(None, found)))


def unknown_in(error: str) -> str:
    """The collation that a server's error reports as unknown; '' for another error."""
    found = _LACKS.search(error)
    return found[1].lower() if found else ""


def choice(collation: str, instead: str) -> str:
    """The entry for the task file."""
    return f"target-collations: {{{collation.lower()}: {instead}}}"


def _candidates(name: str) -> Iterable[str]:
    """In descending similarity: the same rules in later or earlier versions of Unicode, then for any language, and last
    by code points, which keeps all strings distinct."""
    charset, _, rest = name.partition("_")
    newer, older = _UCA_14.fullmatch(name), _UCA_9.fullmatch(name)
    if newer:
        language, kind = newer["language"] or "", newer["kind"]
        yield from (f"utf8mb4_{code}_0900_{kind}" for code in [_CODES.get(language)] if charset == "utf8mb4" and code)
        yield from (f"{charset}_0900_{kind}", f"{charset}_{language}_ci")
    elif older:
        language, kind = _LANGUAGES.get(older["language"] or "", ""), older["kind"]
        yield from (f"utf8mb4_uca1400_{language}_nopad_{kind}", f"utf8mb4_uca1400_nopad_{kind}", f"utf8mb4_0900_{kind}")
    if (newer or older) and name.endswith("_ai_ci"):
        yield from (f"{charset}_unicode_520_nopad_ci", f"{charset}_unicode_520_ci", f"{charset}_unicode_ci")
    yield name.replace("_nopad", "")
    if rest.endswith("_ci"):
        yield from (f"{charset}_{tail}" for tail in ("0900_ai_ci", "unicode_520_ci", "unicode_ci", "general_ci"))
    yield f"{charset}_bin"
