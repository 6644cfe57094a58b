"""DM's error catalogue: one constant per error, with DM's name, code, class, scope and level (August 2026).

Operators' scripts and runbooks use these codes and names, so each situation keeps its code.
"""

from __future__ import annotations

from pkg.errors.codes.base import BaseCodes
from pkg.errors.codes.config import ConfigCodes
from pkg.errors.codes.programs import ProgramCodes
from pkg.errors.codes.units import UnitCodes


class Code(BaseCodes, ConfigCodes, UnitCodes, ProgramCodes):
    """Every error that can leave a component, as ``Code.NameInDM``."""
