"""Multi-byte charsets as the servers convert them, where Python's codecs differ. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Final

#: User-defined rows of 94 codes in Japanese charsets: the first row, and its first character in Unicode.
_USERS_ROW: Final = 0xF5
_USERS_FIRST: Final = 0xE000
_CODES: Final = 94
_USERS_ROWS: Final = 10
#: The bytes of one code.
_FIRST: Final = 0xA1
_LAST: Final = 0xFE
#: The lead byte of a three-byte code in ujis and eucjpms.
_THREE: Final = 0x8F
#: The codes of eucjpms from 8FF3F3 on.
_IBM: Final = (
    "\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u2160\u2161\u2162\u2163\u2164\u2165\u2166\u2167"
    "\u2168\u2169\uff07\uff02\u3231\u2116\u2121\u70bb\u4efc\u50f4\u51ec\u5307\u5324\ufa0e\u548a\u5759\ufa0f\ufa10"
    "\u589e\u5bec\u5cf5\u5d53\ufa11\u5fb7\u6085\u6120\u654e\u663b\u6665\ufa12\uf929\u6801\ufa13\ufa14\u6a6b\u6ae2"
    "\u6df8\u6df2\u7028\ufa15\ufa16\u7501\u7682\u769e\ufa17\u7930\ufa18\ufa19\ufa1a\ufa1b\u7ae7\ufa1c\ufa1d\u7da0"
    "\u7dd6\ufa1e\u8362\ufa1f\u85b0\ufa20\ufa21\u8807\ufa22\u8b7f\u8cf4\u8d76\ufa23\ufa24\ufa25\u90de\ufa26\u9115"
    "\ufa27\ufa28\u9592\uf9dc\ufa29\u973b\u974d\u9751\ufa2a\ufa2b\ufa2c\u999e\u9ad9\u9b72\ufa2d\u9ed1"
)
_IBM_FIRST: Final = 0x52 + _CODES * 0xF3
_NEC_ROW: Final = 0xAD
#: Characters of eucjpms that differ from ujis: those of cp932.
_OF_CP932: Final = str.maketrans("〜‖−¢£¬¦", "～∥－￠￡￢￤")
_FULLWIDTH_BACKSLASH: Final = "＼"
#: big5's codes from F9D6 on.
_ETEN: Final = "碁銹裏墻恒粧嫺"
_ETEN_FIRST: Final = 0xF9D6
#: Codes of big5 that the servers do not know, and their characters in Python.
_NOT_BIG5: Final = frozenset(
    (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce")
)
_IN_DOUBT: Final = frozenset("╴￣ˍ／＼十卅")
#: GB 18030-2005 compared with GB 18030-2000.
_OF_2005: Final = str.maketrans("\ue7c7ḿ", "ḿ\ue7c7")


def _users_character(data: bytes, start: int) -> tuple[str, int] | None:
    """The character of a user-defined code of ujis or eucjpms, and the offset after it."""
    long = data[start] == _THREE
    code = data[start + long : start + long + 2]
    if len(code) < 2 or not _USERS_ROW <= code[0] <= _LAST or not _FIRST <= code[1] <= _LAST:
        return None
    row = code[0] - _USERS_ROW + long * _USERS_ROWS
    return chr(_USERS_FIRST + row * _CODES + code[1] - _FIRST), start + long + 2


def _in_ujis(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    found = _users_character(error.object, error.start)
    if found is None:
        raise error
    return found


def _in_eucjpms(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    found = _users_character(data, start)
    if found is not None:
        return found
    code = data[start : start + 3]
    if code[0] == _NEC_ROW and len(code) > 1 and _FIRST <= code[1] <= _LAST:
        trail = code[1] - 0x61
        return bytes((0x87, trail + (trail >= 0x7F))).decode("cp932"), start + 2
    if code[0] == _THREE and len(code) == 3 and _FIRST <= code[2] <= _LAST:
        at = code[1] * _CODES + code[2] - _FIRST - _IBM_FIRST
        if 0 <= at < len(_IBM):
            return _IBM[at], start + 3
    raise error


def _in_big5(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    code = int.from_bytes(error.object[error.start : error.start + 2], "big") - _ETEN_FIRST
    if not 0 <= code < len(_ETEN):
        raise error
    return _ETEN[code], error.start + 2


for _name, _handler in (("ujis", _in_ujis), ("eucjpms", _in_eucjpms), ("big5", _in_big5)):
    codecs.register_error(f"dm-{_name}", _handler)


def _sjis(data: bytes) -> str:
    return data.decode("shift_jis").replace(_FULLWIDTH_BACKSLASH, "\\")


def _ujis(data: bytes) -> str:
    return data.decode("euc_jp", "dm-ujis").replace(_FULLWIDTH_BACKSLASH, "\\")


def _eucjpms(data: bytes) -> str:
    # Python has two codes for the tilde, one of them at ASCII's code.
    return data.replace(b"\x8f\xa2\xb7", b"\xa1\xc1").decode("euc_jp", "dm-eucjpms").translate(_OF_CP932)


def _big5(data: bytes) -> str:
    text = data.decode("big5", "dm-big5")
    if not _IN_DOUBT.isdisjoint(text):
        at = 0
        for char in text:
            size = 1 if char.isascii() else 2
            if data[at : at + size] in _NOT_BIG5:
                raise UnicodeDecodeError("big5", data, at, at + size, "no character has this code")
            at += size
    return text


def _gb18030(data: bytes) -> str:
    return data.decode("gb18030").translate(_OF_2005)


#: Charset → a function that decodes its bytes; raises ``UnicodeDecodeError``.
DECODE: Final[Mapping[str, Callable[[bytes], str]]] = {
    "sjis": _sjis,
    "ujis": _ujis,
    "eucjpms": _eucjpms,
    "big5": _big5,
    "gb18030": _gb18030,
}
