"""The blocks of the units in a task file: mydumpers, loaders, syncers, validators."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pkg.config.dump_arguments import parse_dump_arguments, tables_of
from pkg.config.effects.effect import warning, warnings_about
from pkg.config.effects.shared_keys import LOADER, MYDUMPER, SYNCER, VALIDATOR
from pkg.config.model import LoaderConfig, MydumperConfig, SyncerConfig
from pkg.errors import Code, DMError, ErrorKind
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig
from pkg.settings.units import parse_duration, parse_size
from pkg.settings.yaml_reader import Section

_MIB = 1024 * 1024
_SAFE_MODE_END = "safe mode ends at the place in the binlog up to which rows may be there twice; only 0s counts"
_REMOTE_DIR = re.compile(r"([a-z0-9]+)://", re.IGNORECASE)


def read_mydumper(section: Section, warnings: list[str]) -> MydumperConfig:
    """Raises 20047 for a chunk-filesize that is not a size, 32001 for extra-args that the dumper does not take."""
    default = MydumperConfig()
    warnings += warnings_about(section, section.name, MYDUMPER)
    size = section.text("chunk-filesize", "64")
    try:
        chunk = parse_size(size, _MIB)
    except ValueError as exc:
        raise section.error(
            Code.ConfigInvalidChunkFileSize,
            "chunk-filesize",
            f"chunk-filesize: {exc}",
            'Write MiB as a number, or "64MiB".',
        ) from None
    try:
        parse_dump_arguments(section.text("extra-args"))
    except DMError as exc:
        raise section.error(exc.kind, "extra-args", exc.message, exc.workaround) from None
    return MydumperConfig(
        mydumper_path=section.text("mydumper-path", default.mydumper_path),
        threads=section.whole("threads", 0) or default.threads,
        chunk_filesize=chunk or default.chunk_filesize,
        statement_size=section.whole("statement-size", 0) or default.statement_size,
        rows=section.whole("rows", default.rows),
        where=section.text("where"),
        skip_tz_utc=section.flag("skip-tz-utc", default.skip_tz_utc),
        extra_args=section.text("extra-args"),
    )


def check_tables_list(section: Section, mydumper: MydumperConfig, lists: BlockAllowList) -> None:
    """Raises 32001 at an instance for a table of ``-T`` whose database is not certain."""
    try:
        tables_of(parse_dump_arguments(mydumper.extra_args), lists)
    except DMError as exc:
        raise section.error(exc.kind, "source-id", exc.message, exc.workaround) from None


def read_loader(section: Section, warnings: list[str]) -> LoaderConfig:
    """Raises 20053 (import-mode), 20054, 20062, 20063, 20065 (choices), 20058, 20059 (dir)."""
    default = LoaderConfig()
    _check_import_mode(section)
    _choice(section, "on-duplicate-physical", ("none", "manual"), Code.ConfigInvalidPhysicalDuplicateResolution)
    _choice(section, "checksum-physical", ("required", "optional", "off"), Code.ConfigInvalidPhysicalChecksum)
    _choice(section, "analyze", ("required", "optional", "off"), Code.ConfigInvalidLoadAnalyze)
    warnings += warnings_about(section, section.name, LOADER)
    duplicates = ("replace", "error", "ignore")
    if section.has("on-duplicate"):
        warnings.append("on-duplicate is deprecated: use on-duplicate-logical")
    old = _choice(section, "on-duplicate", duplicates, Code.ConfigInvalidDuplicateResolution)
    new = _choice(section, "on-duplicate-logical", duplicates, Code.ConfigInvalidDuplicateResolution)
    return LoaderConfig(
        pool_size=section.whole("pool-size", 0) or default.pool_size,
        dir=_local_dir(section) or default.dir,
        import_mode="logical",
        on_duplicate_logical=new or old,
    )


def _check_import_mode(section: Section) -> None:
    mode = section.text("import-mode", "logical").lower()
    if mode in ("", "logical", "sql", "loader"):
        return
    known = mode in ("physical", "import-into")
    raise section.error(
        Code.ConfigInvalidLoadMode,
        "import-mode",
        f"import-mode {mode!r} is not supported yet" if known else f"import-mode {mode!r} is not valid",
        "Set import-mode: logical, or remove the key: rows are loaded by SQL statements, also into TiDB.",
    )


def _choice(section: Section, key: str, allowed: tuple[str, ...], kind: ErrorKind) -> str:
    value = section.text(key).lower()
    if value and value not in allowed:
        raise section.error(kind, key, f"{key} {value!r} is not valid", f"Set one of {', '.join(allowed)}.")
    return value


def _local_dir(section: Section) -> str:
    folder = section.text("dir")
    remote = _REMOTE_DIR.match(folder)
    if "\0" in folder or "\n" in folder:
        raise section.error(Code.ConfigLoaderDirInvalid, "dir", "dir contains a control character", "Name a folder.")
    if remote is None:
        return folder
    if remote[1].lower() in ("file", "local"):
        return folder[remote.end() :]
    raise section.error(
        Code.ConfigLoaderS3NotSupport,
        "dir",
        f"a dump folder on {remote[1]} is not supported yet",
        "Name a local folder.",
    )


def read_syncer(section: Section, warnings: list[str]) -> SyncerConfig:
    """Raises 20060 (safe-mode-duration) or 20061 (safe-mode without any duration)."""
    default = SyncerConfig()
    warnings += warnings_about(section, section.name, SYNCER)
    safe_mode = section.flag("safe-mode", default.safe_mode)
    duration = _safe_mode_duration(section)
    if safe_mode and duration == 0:
        raise section.error(
            Code.ConfigConfictSafeModeDurationAndSafeMode,
            "safe-mode-duration",
            "safe-mode is true and safe-mode-duration is 0s: they contradict each other",
            "Remove one of them.",
        )
    if duration:
        warnings.append(warning("safe-mode-duration", section.name, _SAFE_MODE_END))
    return SyncerConfig(
        worker_count=section.whole("worker-count", 0) or default.worker_count,
        batch=section.whole("batch", 0) or default.batch,
        queue_size=section.whole("queue-size", 0) or default.queue_size,
        checkpoint_flush_interval=section.whole("checkpoint-flush-interval", 0) or default.checkpoint_flush_interval,
        compact=section.maybe_flag("compact"),
        multiple_rows=section.maybe_flag("multiple-rows"),
        safe_mode=safe_mode,
        safe_mode_duration=duration,
    )


def _safe_mode_duration(section: Section) -> float | None:
    text = section.text("safe-mode-duration")
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as exc:
        seconds, problem = -1.0, str(exc)
    else:
        problem = "it is negative"
    if seconds < 0:
        raise section.error(
            Code.ConfigInvalidSafeModeDuration,
            "safe-mode-duration",
            f"safe-mode-duration: {problem}",
            "Write a duration such as 60s.",
        )
    return seconds


def check_foreign_keys(section: Section, syncer: SyncerConfig, target: DBConfig) -> None:
    """Raises 20070 when rows are asked to be compacted or joined while the target checks foreign keys."""
    if not target.foreign_key_checks:
        return
    for key, asked in (("compact", syncer.compact), ("multiple-rows", syncer.multiple_rows)):
        if asked:
            raise section.error(
                Code.ConfigUnsupportedForeignKeyChecksOption,
                key,
                f"{key}: true is not possible while the target's session has foreign_key_checks=1",
                f"Remove {key} or the session variable.",
            )


def read_validator(section: Section, warnings: list[str]) -> None:
    """Checks a validator's block; one that would run is refused, for validation comes later. Raises 20055."""
    mode = section.text("mode", "none").lower()
    if mode not in ("", "none", "fast", "full"):
        raise section.error(
            Code.ConfigValidationMode, "mode", f"validation mode {mode!r} is not valid", "Set none, fast or full."
        )
    counts: Mapping[str, int] = {"worker-count": 4, "batch-query-size": 100, "max-pending-row-count": 2**31 - 1}
    for key, value in counts.items():
        section.whole(key, value)
    for key in ("validate-interval", "check-interval", "row-error-delay", "meta-flush-interval"):
        section.seconds(key, 0)
    try:
        parse_size(section.text("max-pending-row-size", "500m"))
    except ValueError as exc:
        raise section.error(
            Code.ConfigYamlTransform,
            "max-pending-row-size",
            f"max-pending-row-size: {exc}",
            'Write a size such as "500m".',
        ) from None
    if mode in ("fast", "full"):
        raise section.error(
            Code.ConfigValidationMode, "mode", f"validation mode {mode!r} is not supported yet", "Set mode: none."
        )
    warnings += warnings_about(section, section.name, VALIDATOR)
    warnings.append(f"validator-config-name {section.name} has no effect: with mode none nothing is validated")
