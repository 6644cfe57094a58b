"""The session variables of a target on which writing rows depends, and why each must not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pkg.errors import Code
from pkg.settings.connections import DBConfig

if TYPE_CHECKING:  # Executors, which write rows by this, have no YAML.
    from pkg.settings.yaml_reader import Section

_LITERALS = "rows are sent as utf8mb4, and the server would read their bytes as other characters"
_BY_TRANSACTION = "a writer's rows and its marker are one transaction, which the writer begins and ends itself"
_OFF = frozenset({"0", "OFF", "FALSE"})
#: Modes that change the written values, or the row that a statement finds.
_HARMFUL_MODES: Mapping[str, str] = {
    "NO_BACKSLASH_ESCAPES": "would change the data that is written",
    "EMPTY_STRING_IS_NULL": "would change the data that is written",
    "PAD_CHAR_TO_FULL_LENGTH": "rows without a key would not be found by their values",
}
#: In this mode a number 0 in an AUTO_INCREMENT column stays 0.
_NEEDED_MODE = "NO_AUTO_VALUE_ON_ZERO"


def always(_: str) -> bool:
    return True


def off(value: str) -> bool:
    return value in _OFF


def on(value: str) -> bool:
    return value not in _OFF


def other_charset(value: str) -> bool:
    """Whether a charset or collation is not one of utf8mb4."""
    return value != "UTF8MB4" and not value.startswith("UTF8MB4_")


#: Variable → (refused values, in upper case; why).
RefusedVariables = Mapping[str, tuple[Callable[[str], bool], str]]
_REFUSED: RefusedVariables = {
    "autocommit": (always, _BY_TRANSACTION),
    "completion_type": (lambda value: value not in ("0", "NO_CHAIN"), _BY_TRANSACTION),
    "tx_read_only": (on, "rows could not be written"),
    "transaction_read_only": (on, "rows could not be written"),
    **dict.fromkeys(
        ("tx_isolation", "transaction_isolation"),
        (
            lambda value: value.replace(" ", "-") == "READ-UNCOMMITTED",
            "a marker would be visible before it is committed",
        ),
    ),
    **dict.fromkeys(
        ("character_set_client", "character_set_connection", "character_set_results", "character_set_database"),
        (other_charset, _LITERALS),
    ),
    "collation_connection": (other_charset, _LITERALS),
    "unique_checks": (off, "InnoDB may then accept a duplicate key without an error"),
    "sql_select_limit": (always, "rows of the meta tables would be missing"),
    "sql_quote_show_create": (off, "structures could not be read"),
    "insert_id": (always, "rows would get other numbers"),
    "timestamp": (always, "columns with the current time would all get this time"),
    **dict.fromkeys(
        ("tidb_batch_insert", "tidb_batch_delete", "tidb_batch_commit"),
        (on, "TiDB would commit parts of a transaction"),
    ),
}
#: Variables that are never set: why each has no effect, for values other than ours.
_IGNORED: RefusedVariables = {
    "time_zone": (always, "rows are sent in UTC and stay the same"),
    # DM's task files set it OFF. A repeated statement would not be checked again for its findings.
    "tidb_disable_txn_auto_retry": (off, "transactions are never repeated by TiDB, and the writers repeat them"),
}


def check_target_session(section: Section, config: DBConfig, warnings: list[str]) -> None:
    """Raises 20003 for variables that a target's session must not change; warns about those without effect."""
    session = dict(config.session)
    refuse_session(section, session, _HARMFUL_MODES, _REFUSED)
    if section.has("max-allowed-packet"):
        warnings.append(
            f"max-allowed-packet of {section.name} is deprecated: statements have at most half of it, and the server's "
            "own limit counts"
        )
    for name, value in session.items():
        if why := _why_ignored(name, value):
            warnings.append(f"{name} in {section.name}.session has no effect: {why}")


def without_ignored(session: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The variables that are set in a target's session."""
    return {name: value for name, value in session if not _why_ignored(name, value)}


def _why_ignored(name: str, value: str) -> str:
    ignored, why = _IGNORED.get(name.lower(), (None, ""))
    return why if ignored is not None and ignored(value.strip().upper()) else ""


def refuse_session(
    section: Section, session: Mapping[str, str], harmful_modes: Mapping[str, str], refused: RefusedVariables
) -> None:
    """Raises 20003 for a variable in ``refused``, or a sql_mode with one of ``harmful_modes`` (mode → why)."""
    given = section.section("session") or section
    for name, value in session.items():
        modes = {mode.strip() for mode in value.upper().split(",")} if name == "sql_mode" else set()
        harmful = sorted(harmful_modes.keys() & modes)
        if harmful:
            raise section.error(
                Code.ConfigYamlTransform,
                "session",
                f"sql_mode {', '.join(harmful)}: {harmful_modes[harmful[0]]}",
                "Remove it from sql_mode.",
            )
        refuses, why = refused.get(name, (None, ""))
        if refuses is not None and refuses(value.strip().upper()):
            raise given.error(
                Code.ConfigYamlTransform,
                name,
                f"{section.name}.session cannot have {name}: {value}: {why}",
                f"Remove {name} from {section.name}.session.",
            )


def writing_session(base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a session that writes rows: ``base``, then the task's ``own``, and those that both depend on."""
    session = {**base, **own}
    modes = [mode for mode in session.get("sql_mode", "").split(",") if mode.strip()]
    if _NEEDED_MODE not in {mode.strip().upper() for mode in modes}:
        session["sql_mode"] = ",".join([*modes, _NEEDED_MODE])
    return session
