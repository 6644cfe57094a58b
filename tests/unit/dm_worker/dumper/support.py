"""Configurations for the tests of the dumper."""

from __future__ import annotations

from pkg.config.model import MydumperConfig, SubTaskConfig
from pkg.settings.connections import DBConfig


def dump_task_config(extra: str) -> SubTaskConfig:
    server = DBConfig("h", 1)
    return SubTaskConfig("t", "s", "all", server, server, mydumper=MydumperConfig(extra_args=extra))
