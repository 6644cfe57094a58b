"""The names of the syncer's tables in the meta schema. Pure."""

from __future__ import annotations


def syncer_table(task: str, what: str) -> str:
    """``what``: batch, checkpoint, ddl, marker, …"""
    return f"{task}_syncer_{what}"
