"""The errors that end a validation."""

from __future__ import annotations

import traceback

from pkg import errors
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.process.log import get_logger

log = get_logger("validator")


def defect(exc: Exception) -> DMError:
    log.error("validation failed", trace="".join(traceback.format_exception(exc)))
    return errors.new(Code.ValidatorPanic, f"the validator failed: {exc!r}", raw=exc, workaround=Advice.DEFECT)


def full_disk(exc: OSError) -> DMError:
    return errors.new(
        Code.ValidatorPersistData,
        f"changes that wait for their comparison cannot be kept in a file: {exc}",
        raw=exc,
        workaround="Free space in the worker's TMPDIR, then stop the validation and start it again.",
    )
