"""The rows of the page about the keys of dm-master.toml and dm-worker.toml, and the warnings about them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pkg.config.effects.effect import KeyEffect, warning
from pkg.settings.options import Option
from pkg.settings.rotation import is_by_time


def option_effects(options: Iterable[Option]) -> tuple[KeyEffect, ...]:
    """A row for each key of the file, in the order of the options."""
    return tuple(
        KeyEffect(option.name, option.default, option.effect, option.acts, option.effect_kind)
        for option in options
        if option.file
    )


def settings_warnings(effects: Iterable[KeyEffect], changed: Collection[str], rotate: str) -> list[str]:
    """Sentences about the settings without effect among ``changed``, the fields with a value other than the default."""
    ignored = (one for one in effects if one.kind == "warned" and one.key.replace("-", "_") in changed)
    found = [warning(one.key, "", one.effect) for one in ignored]
    if is_by_time(rotate):
        found.append(warning("log-rotate", "", f"{rotate!r} is taken as 512MiB, the size at which DM rotates"))
    return found
