"""A server's version and settings, as far as they affect the structures that its DDL creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from pkg.binlog.charsets import collation_charset
from pkg.ddl.tokens import SessionDefaults, word_set
from pkg.mysql.introspect import query, server_info, variable

_SINGLE_BYTE = """armscii8 ascii cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 geostd8 greek hebrew keybcs2 koi8r koi8u
    latin2 latin7 macce macroman"""
#: Charset → (maximum bytes of a character, default collation if it is not <charset>_general_ci).
_CHARSETS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(word_set(_SINGLE_BYTE), (1, "")),
    "binary": (1, "binary"),
    "dec8": (1, "dec8_swedish_ci"),
    "hp8": (1, "hp8_english_ci"),
    "latin1": (1, "latin1_swedish_ci"),
    "latin5": (1, "latin5_turkish_ci"),
    "swe7": (1, "swe7_swedish_ci"),
    "tis620": (1, "tis620_thai_ci"),
    "big5": (2, "big5_chinese_ci"),
    "cp932": (2, "cp932_japanese_ci"),
    "euckr": (2, "euckr_korean_ci"),
    "gb2312": (2, "gb2312_chinese_ci"),
    "gbk": (2, "gbk_chinese_ci"),
    "sjis": (2, "sjis_japanese_ci"),
    "ucs2": (2, ""),
    "eucjpms": (3, "eucjpms_japanese_ci"),
    "ujis": (3, "ujis_japanese_ci"),
    "utf8": (3, ""),
    "utf8mb3": (3, ""),
    "gb18030": (4, "gb18030_chinese_ci"),
    "utf16": (4, ""),
    "utf16le": (4, ""),
    "utf32": (4, ""),
    "utf8mb4": (4, ""),
}
# MariaDB's collations for several charsets; they use the charset of their context.
_CONTEXTUAL = "uca1400_"


@dataclass(frozen=True, slots=True)
class Charset:
    """A charset with a collation, both with the server's names."""

    name: str
    collation: str

    @property
    def max_bytes(self) -> int:
        """The maximum bytes of one character."""
        return _CHARSETS[self.name][0]


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """The server whose DDL is followed.

    ``charset``/``collation`` are those of a new schema; ``explicit_timestamp`` is ``explicit_defaults_for_timestamp``:
    without it a TIMESTAMP without NULL is NOT NULL.
    ``collations`` are its collations' names by id, as far as known. ``folds_names``: names of schemas and
    tables are kept in lower case (``lower_case_table_names`` is not 0). ``engine``: the default of new tables.
    """

    flavor: str = "mariadb"
    version: tuple[int, int, int] = (10, 11, 0)
    charset: str = "utf8mb4"
    collation: str = "utf8mb4_general_ci"
    explicit_timestamp: bool = True
    folds_names: bool = False
    collations: Mapping[int, str] = field(default_factory=dict, hash=False)
    engine: str = ""

    @property
    def mariadb(self) -> bool:
        return self.flavor == "mariadb"

    @property
    def shows_width(self) -> bool:
        """Whether COLUMN_TYPE has the display width of integers and years."""
        return self.mariadb or self.version < (8, 0, 19)

    @property
    def geometry_collection(self) -> str:
        """The server's name of that type, for any spelling."""
        return "geometrycollection" if self.mariadb or self.version < (8, 0, 11) else "geomcollection"

    @property
    def utf8mb3(self) -> str:
        """The server's name of the three-byte utf8."""
        renamed = self.version >= (10, 6, 0) if self.mariadb else self.version >= (8, 0, 30)
        return "utf8mb3" if renamed else "utf8"

    @property
    def default(self) -> Charset:
        return self.resolve(self.charset, self.collation, None)

    def default_in(self, session: SessionDefaults) -> Charset:
        """A new schema's charset in a session. Raises 11054 for a collation without a known charset."""
        number = session.server_collation
        if number is None:
            return self.default
        name = self.collations.get(number, "")
        return self.resolve("" if name else collation_charset(number), name, None)

    def resolve(self, charset: str, collation: str, inherited: Charset | None) -> Charset:
        """The charset of a definition, from its own options and those that it inherits.

        Raises ``ValueError`` for an unknown charset.
        """
        charset, collation = self._alias(charset.lower()), self._alias(collation.lower())
        if charset == "default":
            charset = ""
        if collation == "default":
            collation = ""
        if collation.startswith(_CONTEXTUAL):
            around = charset or (inherited.name if inherited else self.charset)
            return self._known(around, f"{around}_{collation}")
        if collation:
            return self._known(charset or collation.partition("_")[0], collation)
        if charset:
            return self._known(charset, self._default_collation(charset))
        return inherited if inherited is not None else self.default

    def default_collation(self, charset: str) -> str:
        """The collation of a charset without one, under the name (utf8 or utf8mb3) used for the charset.

        Raises ``ValueError`` for an unknown charset.
        """
        named = charset.lower()
        _, separator, tail = self.resolve(named, "", None).collation.partition("_")
        return f"{named}{separator}{tail}"

    def binary_collation(self, charset: Charset) -> Charset:
        """The charset with its collation by code points (the BINARY attribute)."""
        return charset if charset.name == "binary" else Charset(charset.name, f"{charset.name}_bin")

    def _alias(self, name: str) -> str:
        """``utf8`` and ``utf8mb3``, alone or before a collation's ``_``, replaced by this server's name of it."""
        head, separator, tail = name.partition("_")
        return f"{self.utf8mb3 if head in ('utf8', 'utf8mb3') else head}{separator}{tail}"

    def _known(self, charset: str, collation: str) -> Charset:
        if charset not in _CHARSETS:
            raise ValueError(f"unknown character set {charset!r}")
        return Charset(charset, collation)

    def _default_collation(self, charset: str) -> str:
        if charset == "utf8mb4" and not self.mariadb and self.version >= (8, 0, 1):
            return "utf8mb4_0900_ai_ci"
        if self.mariadb and self.version >= (11, 5, 0) and charset in ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"):
            return f"{charset}_uca1400_ai_ci"
        return (_CHARSETS[charset][1] if charset in _CHARSETS else "") or f"{charset}_general_ci"


def fetch_server_defaults(conn: Connection[Any]) -> ServerDefaults:
    """The defaults of a running server."""
    info = server_info(conn)
    explicit = variable(conn, "explicit_defaults_for_timestamp")
    return ServerDefaults(
        flavor="mariadb" if info.flavor == "mariadb" else "mysql",
        version=info.version,
        charset=variable(conn, "character_set_server") or "utf8mb4",
        collation=variable(conn, "collation_server") or "",
        explicit_timestamp=(explicit or "0").upper() in ("1", "ON"),
        folds_names=(variable(conn, "lower_case_table_names") or "0") != "0",
        collations=fetch_collations(conn),
        engine=variable(conn, "default_storage_engine") or "",
    )


def fetch_collations(conn: Connection[Any]) -> dict[int, str]:
    """Id → name of all collations of a server. Ids below 512 mean the same collation in both families."""
    info = server_info(conn)
    if info.flavor == "mariadb" and info.version >= (10, 10, 1):
        # A collation for several charsets has an id for each.
        source = "FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
    else:
        source = "COLLATION_NAME FROM information_schema.COLLATIONS"
    return {int(number): str(name) for number, name in query(conn, f"SELECT ID, {source}") if number is not None}
