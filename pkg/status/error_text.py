"""Takes the text of an error apart. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: DM's text form of one error (``DMError.__str__``).
_FORM = re.compile(
    r"\[code=(?P<code>\d+):class=[^\]]*\], Message: (?P<message>.*?)"
    r"(?:, RawCause: (?P<cause>.*?))?(?:, Workaround: (?P<advice>.*))?",
    re.DOTALL,
)
_BEGIN = "[code="


@dataclass(frozen=True, slots=True)
class ErrorText:
    """``code`` is '' for a text of another form, which is the whole ``message``; ``advice``: what to do."""

    code: str
    message: str
    cause: str
    advice: str

    @property
    def line(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message


def parsed_error(text: str) -> ErrorText:
    """The parts of an error's text; any other text, such as that of several errors, stays as it is."""
    found = _FORM.fullmatch(text) if text.count(_BEGIN) == 1 else None
    if found is None:
        return ErrorText("", text, "", "")
    return ErrorText(found["code"], found["message"], found["cause"] or "", found["advice"] or "")
