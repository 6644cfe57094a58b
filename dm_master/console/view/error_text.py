"""Takes the text of an error apart. Pure."""

from __future__ import annotations

import re

from dm_master.console.view.progress import ErrorView

#: DM's text form of one error (``DMError.__str__``).
_FORM = re.compile(
    r"\[code=(?P<code>\d+):class=[^\]]*\], Message: (?P<message>.*?)"
    r"(?:, RawCause: (?P<cause>.*?))?(?:, Workaround: (?P<advice>.*))?",
    re.DOTALL,
)
_BEGIN = "[code="


def parsed_error(text: str) -> ErrorView:
    """The parts of an error's text; any other text, such as that of several errors, stays as it is."""
    found = _FORM.fullmatch(text) if text.count(_BEGIN) == 1 else None
    if found is None:
        return ErrorView(text, "", "")
    return ErrorView(f"{found['code']}: {found['message']}", found["cause"] or "", found["advice"] or "")
