"""Python functions made to measure for one table shape: they turn row images into SQL literals.

A loop over generic column readers costs several microseconds a row. Here neighbouring fixed-width columns become one
``struct`` call, columns that nobody asked for are stepped over, and a row without NULLs takes a path that tests for
none. The functions read ``data`` from ``p`` to ``end`` and return where they stopped; malformed images make them raise
``struct.error``, ``IndexError`` or ``ValueError``, or stop beyond ``end``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pkg.binlog.derived import Derived
from pkg.binlog.literals import Codec, escape
from pkg.binlog.temporal import Remembered

#: (data, start, end, append) → where it stopped.
Reader = Callable[[bytes, int, int, Callable[[Any], None]], int]
_PREFIX_FORMATS = {1: "B", 2: "H", 3: "HB", 4: "I"}


@dataclass(frozen=True, slots=True)
class Readers:
    """The functions of one shape. ``images`` are for (insert or delete, update)."""

    insert: Reader
    update: Reader
    delete: Reader
    image: Reader
    image_pair: Reader


def compile_readers(
    codecs: Sequence[Codec],
    nullable: Sequence[bool],
    key: Sequence[int],
    write: Sequence[int],
    derived: Sequence[Derived] = (),
) -> Readers:
    """Readers for row images whose columns are ``codecs``; ``key`` and ``write`` are column numbers, or beyond them
    those of ``derived`` literals."""
    source = _Source(codecs, nullable, tuple(key), tuple(write), tuple(derived))
    text = "\n".join(
        (
            source.insert(),
            source.update(),
            source.delete(),
            source.image("image", 1),
            source.image("image_pair", 2),
        )
    )
    namespace = source.namespace
    exec(compile(text, "<row readers>", "exec"), namespace)
    return Readers(*(namespace[name] for name in ("insert", "update", "delete", "image", "image_pair")))


class _Source:
    """Writes the functions. Raw values are called ``v3`` (``o3`` before an update), whole literals ``lv3``."""

    def __init__(
        self,
        codecs: Sequence[Codec],
        nullable: Sequence[bool],
        key: tuple[int, ...],
        write: tuple[int, ...],
        derived: tuple[Derived, ...],
    ) -> None:
        self._codecs = codecs
        self._derived = derived
        self._nullable = nullable
        self._key = key
        self._write = write
        self._bitmap = (len(codecs) + 7) // 8
        self._mask = sum(1 << i for i, flag in enumerate(nullable) if flag)
        self.namespace: dict[str, Any] = {"NULL": b"NULL", "escape": escape, "from_bytes": int.from_bytes}
        for i, codec in enumerate(codecs):
            if codec.render is not None:
                self.namespace[f"r{i}"] = codec.render
            if isinstance(codec.render, Remembered):
                self.namespace[f"known{i}"] = codec.render.get
        for i, one in enumerate(derived, len(codecs)):
            self.namespace[f"d{i}"] = one.literal
        self._structs: dict[str, str] = {}

    def insert(self) -> str:
        wanted = self._read_for(*self._key, *self._write)
        body = self._image(wanted, "v", lambda nulls: [*self._keep_key(nulls), *self._append_values(0, nulls, "b''")])
        return self._loop("insert", body)

    def delete(self) -> str:
        def finish(nulls: bool) -> list[str]:
            return [*self._keep_key(nulls), f"append((2, {self._key_text('lv')}, b'', b''))"]

        return self._loop("delete", self._image(self._read_for(*self._key), "v", finish))

    def update(self) -> str:
        # A key that can't be NULL is compared raw, and its old literal made only when it changed.
        # Floats are not: -0 and 0 are equal, and their literals are not.
        compared = sorted(self._read_for(*self._key))
        compare_raw = bool(compared) and not any(
            self._nullable[i] or self._codecs[i].fixed in ("f", "d") for i in compared
        )
        same = " and ".join(f"o{i} == v{i}" for i in compared)

        def finish_before(nulls: bool) -> list[str]:
            return [] if compare_raw else [*self._keep_key(nulls, "o"), f"old = {self._key_text('lo')}"]

        def finish_after(nulls: bool) -> list[str]:
            # The old key comes first: of two values that can't be mapped, the error names the older one.
            lines = [f"if {same}:", "    old = b''", "else:"] if compare_raw else []
            if compare_raw:
                lines += [f"    {line}" for line in [*self._keep_key(False, "o"), f"old = {self._key_text('lo')}"]]
            lines += self._keep_key(nulls)
            if not compare_raw:
                return [*lines, *self._append_values(1, nulls, "old")]
            return [*lines, f"key = {self._key_text('lv')}", *self._append_values(1, nulls, "old or key", "key")]

        before = self._image(self._read_for(*self._key), "o", finish_before)
        after = self._image(self._read_for(*self._key, *self._write), "v", finish_after)
        return self._loop("update", [*before, *after])

    def image(self, name: str, count: int) -> str:
        """All columns' literals as a list an image, ``count`` images a row."""
        wanted = set(range(len(self._codecs)))
        lines: list[str] = []
        for n in range(count):
            target = f"image{n}"

            def finish(nulls: bool, target: str = target) -> list[str]:
                literals = (self._whole(i, "v", nulls) for i in range(len(self._codecs) + len(self._derived)))
                return [f"{target} = [{', '.join(literals)}]"]

            lines += self._image(wanted, "v", finish)
        result = "image0" if count == 1 else "(image0, image1)"
        return self._loop(name, [*lines, f"append({result})"])

    def _read_for(self, *numbers: int) -> set[int]:
        """The columns to read for the literals with these numbers."""
        count = len(self._codecs)
        sources = (i if i < count else self._derived[i - count].source for i in numbers)
        return {i for i in sources if i >= 0}

    def _loop(self, name: str, body: list[str]) -> str:
        lines = [f"def {name}(data, p, end, append):", "    while p < end:"]
        return "\n".join([*lines, *(f"        {line}" for line in body), "    return p"])

    def _image(self, wanted: set[int], var: str, finish: Callable[[bool], list[str]]) -> list[str]:
        """Reads one row image; ``finish`` gives the lines for a row that may (True) or can't hold NULLs."""
        plain = [*self._columns(wanted, var, nulls=False), *finish(False)]
        if not self._mask:
            return plain
        careful = [*self._columns(wanted, var, nulls=True), *finish(True)]
        size = self._bitmap
        bits = "data[p]" if size == 1 else f"from_bytes(data[p:p + {size}], 'little')"
        return [
            f"nulls = {bits}",
            f"if nulls & {self._mask}:",
            *(f"    {line}" for line in careful),
            "else:",
            *(f"    {line}" for line in plain),
        ]

    def _columns(self, wanted: set[int], var: str, *, nulls: bool) -> list[str]:
        """Steps over the NULL bitmap and reads the columns; with ``nulls``, nullable ones end up as literals."""
        lines: list[str] = []
        group = _Group(self, lines)
        group.skip(self._bitmap)
        for i, codec in enumerate(self._codecs):
            target = f"{var}{i}" if i in wanted else ""
            if not (nulls and self._nullable[i]):
                self._read(codec, target, lines, group)
                continue
            group.flush()
            present: list[str] = []
            own = _Group(self, present)
            self._read(codec, target, present, own)
            own.flush()
            if target:
                present.append(f"l{target} = {self._literal(i, target)}")
                lines += [f"if nulls & {1 << i}:", f"    l{target} = NULL", "else:"]
            else:
                lines.append(f"if not nulls & {1 << i}:")
            lines += [f"    {line}" for line in present]
        group.flush()
        return lines

    def _read(self, codec: Codec, target: str, lines: list[str], group: _Group) -> None:
        if codec.fixed:
            group.take(codec.fixed, target)
            return
        group.take_length(codec.prefix)
        if target:
            lines += ["e = p + z", f"{target} = data[p:e]", "p = e"]
        else:
            lines.append("p += z")

    def unpacker(self, fmt: str) -> str:
        """The name of the function that unpacks ``fmt``."""
        if fmt not in self._structs:
            self._structs[fmt] = f"u{len(self._structs)}"
            self.namespace[self._structs[fmt]] = struct.Struct("<" + fmt).unpack_from
        return self._structs[fmt]

    def _filler(self, i: int, raw: str) -> str:
        """What fills the placeholder of column ``i``'s form."""
        codec = self._codecs[i]
        if codec.escape:
            return f"(escape({raw}) if 39 in {raw} or 92 in {raw} else {raw})"
        if isinstance(codec.render, Remembered):
            return f"(known{i}({raw}) or r{i}({raw}))"
        return raw if codec.render is None else f"r{i}({raw})"

    def _literal(self, i: int, raw: str) -> str:
        """The whole literal of column ``i``, which is not NULL."""
        form = self._codecs[i].form
        return self._filler(i, raw) if form == b"%b" else f"{form!r} % ({self._filler(i, raw)},)"

    def _whole(self, i: int, var: str, nulls: bool) -> str:
        if i >= len(self._codecs):
            one = self._derived[i - len(self._codecs)]
            return f"d{i}({self._whole(one.source, var, nulls)})" if one.source >= 0 else repr(one.text)
        return f"l{var}{i}" if nulls and self._nullable[i] else self._literal(i, f"{var}{i}")

    def _keep_key(self, nulls: bool, var: str = "v") -> list[str]:
        """Gives the key's literals names, for they are used twice."""
        return [f"l{var}{i} = {self._whole(i, var, nulls)}" for i in self._key if not self._is_named(i, nulls)]

    def _is_named(self, i: int, nulls: bool) -> bool:
        """Whether reading the column gave its literal a name already."""
        return i < len(self._codecs) and nulls and self._nullable[i]

    def _key_text(self, prefix: str) -> str:
        names = [f"{prefix}{i}" for i in self._key]
        if len(names) < 2:
            return names[0] if names else "b''"
        return f"{b','.join([b'%b'] * len(names))!r} % ({', '.join(names)})"

    def _append_values(self, op: int, nulls: bool, old: str, key: str = "") -> list[str]:
        forms, fillers = [], []
        for i in self._write:
            named = i in self._key or self._is_named(i, nulls)
            whole = named or i >= len(self._codecs)
            forms.append(b"%b" if whole else self._codecs[i].form)
            fillers.append(f"lv{i}" if named else self._whole(i, "v", nulls) if whole else self._filler(i, f"v{i}"))
        form = b"(" + b",".join(forms) + b")"
        values = f"{form!r} % ({', '.join(fillers)},)" if fillers else "b'()'"
        return [f"append(({op}, {key or self._key_text('lv')}, {values}, {old}))"]


class _Group:
    """Neighbouring fixed-width values, read by one ``unpack``."""

    def __init__(self, source: _Source, lines: list[str]) -> None:
        self._source = source
        self._lines = lines
        self._format = ""
        self._targets: list[str] = []

    def skip(self, size: int) -> None:
        self._format += f"{size}x"

    def take(self, fmt: str, target: str) -> None:
        if not target:
            self.skip(struct.calcsize("<" + fmt))
            return
        self._format += fmt
        self._targets.append(target)

    def take_length(self, size: int) -> None:
        """Reads the length of the value that follows into ``z``."""
        wide = size == 3
        self._format += _PREFIX_FORMATS[size]
        self._targets += ["z", "y"] if wide else ["z"]
        self.flush()
        if wide:
            self._lines.append("z |= y << 16")

    def flush(self) -> None:
        if not self._format:
            return
        size = struct.calcsize("<" + self._format)
        if self._format == "B" and self._targets:
            self._lines.append(f"{self._targets[0]} = data[p]")
        elif self._targets:
            comma = "," if len(self._targets) == 1 else ""
            self._lines.append(f"{', '.join(self._targets)}{comma} = {self._source.unpacker(self._format)}(data, p)")
        self._lines.append(f"p += {size}")
        self._format, self._targets = "", []
