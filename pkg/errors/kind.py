"""The type of an entry in DM's error catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field

_BY_CODE: dict[int, ErrorKind] = {}


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One entry of the catalogue; its ``name`` is that of its constant, as in DM.

    There is one object per entry, even after pickling, so kinds are compared with ``is``.
    """

    code: int
    err_class: str
    scope: str = "internal"
    level: str = "high"
    name: str = field(init=False, default="")

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)
        if self.code in _BY_CODE:
            raise ValueError(f"{name} has the code {self.code}, as {_BY_CODE[self.code].name}")
        _BY_CODE[self.code] = self

    def __reduce__(self) -> tuple[object, ...]:
        return (_of_code, (self.code,))


def _of_code(code: int) -> ErrorKind:
    return _BY_CODE[code]
