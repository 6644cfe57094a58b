"""The blocks of the units in a task file: mydumpers, loaders, syncers, validators."""

from __future__ import annotations

from dataclasses import replace

from pkg.config.dump_arguments import parse_dump_arguments, tables_of
from pkg.config.effects.effect import effects_of, warning, warnings_about
from pkg.config.effects.shared_keys import LOADERS, MYDUMPERS, SYNCERS, VALIDATORS
from pkg.config.fields import read_block
from pkg.config.model import LoaderConfig, MydumperConfig, SyncerConfig, ValidatorConfig
from pkg.errors import Code, DMError
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig
from pkg.settings.yaml_reader import Section

_SAFE_MODE_END = "safe mode ends at the place in the binlog up to which rows may be there twice; only 0s counts"
_MYDUMPER, _LOADER, _SYNCER, _VALIDATOR = (
    tuple(effects_of(block.keys, model=block.model)) for block in (MYDUMPERS, LOADERS, SYNCERS, VALIDATORS)
)


def read_mydumper(section: Section, warnings: list[str]) -> MydumperConfig:
    """Raises 20047 for an invalid chunk-filesize, 32001 for extra-args that the dumper does not accept."""
    warnings += warnings_about(section, section.name, _MYDUMPER)
    return read_block(section, MYDUMPERS.keys, MydumperConfig)


def check_tables_list(section: Section, mydumper: MydumperConfig, lists: BlockAllowList) -> None:
    """Raises 32001 at an instance for a table of ``-T`` whose database is not certain."""
    try:
        tables_of(parse_dump_arguments(mydumper.extra_args), lists)
    except DMError as exc:
        raise section.error(exc.kind, "source-id", exc.message, exc.workaround) from None


def read_loader(section: Section, warnings: list[str]) -> LoaderConfig:
    """Raises 20053 (import-mode), 20054, 20062, 20063, 20065 (choices), 20058, 20059 (dir)."""
    loader = read_block(section, LOADERS.keys, LoaderConfig)
    warnings += warnings_about(section, section.name, _LOADER)
    if section.has("on-duplicate"):
        warnings.append("on-duplicate is deprecated: use on-duplicate-logical")
    older = section.text("on-duplicate").lower()
    return replace(loader, on_duplicate_logical=loader.on_duplicate_logical or older)


def read_syncer(section: Section, warnings: list[str]) -> SyncerConfig:
    """Raises 20060 (safe-mode-duration) or 20061 (safe-mode without any duration)."""
    warnings += warnings_about(section, section.name, _SYNCER)
    syncer = read_block(section, SYNCERS.keys, SyncerConfig)
    if syncer.safe_mode and syncer.safe_mode_duration == 0:
        raise section.error(
            Code.ConfigConfictSafeModeDurationAndSafeMode,
            "safe-mode-duration",
            "safe-mode is true and safe-mode-duration is 0s: they contradict each other",
            "Remove one of them.",
        )
    if syncer.safe_mode_duration:
        warnings.append(warning("safe-mode-duration", section.name, _SAFE_MODE_END))
    return syncer


def check_foreign_keys(section: Section, syncer: SyncerConfig, target: DBConfig) -> None:
    """Raises 20070 when compact or multiple-rows is requested while the target checks foreign keys."""
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


def read_validator(section: Section, warnings: list[str]) -> ValidatorConfig:
    """Raises 20055 for an unknown mode, 20003 for an invalid size or number."""
    warnings += warnings_about(section, section.name, _VALIDATOR)
    return read_block(section, VALIDATORS.keys, ValidatorConfig)
