"""Checks before a source is stored and before a task starts, so that no migration starts that cannot work."""

from dm_master.precheck.result import PrecheckResult
from dm_master.precheck.runner import run_prechecks
from dm_master.precheck.source_check import check_source

__all__ = ["PrecheckResult", "check_source", "run_prechecks"]
