"""Single-byte charsets without a Python codec, or with one that differs from the servers'. Pure data."""

from __future__ import annotations

from typing import Final

_CONTROLS: Final = "".join(map(chr, range(0x80, 0xA0)))
#: Charset → the characters of its bytes from 0x80 on; ? for bytes without a character.
HIGH: Final = {
    "armscii8": _CONTROLS
    + ("\xa0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"),
    "dec8": _CONTROLS
    + ("\xa0¡¢£?¥?§¤©ª«????°±²³?µ¶·?¹º»¼½?¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ?ÑÒÓÔÕÖŒØÙÚÛÜŸ?ßàáâãäåæçèéêëìíîï?ñòóôõöœøùúûüÿ??"),
    "geostd8": (
        "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ???????????????????????№??"
    ),
    "hp8": _CONTROLS
    + ("\xa0ÀÂÈÊËÎÏ´ˋˆ¨˜ÙÛ₤¯Ýý°ÇçÑñ¡¿¤£¥§ƒ¢âêôûáéóúàèòùäëöüÅîØÆåíøæÄìÖÜÉïßÔÁÃãÐðÍÌÓÒÕõŠšÚŸÿÞþ·µ¶¾—¼½ªº«■»±?"),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
    ),
}
#: Conversions in which the servers differ from Python's codecs; ? for bytes that have no character for the servers.
OTHERWISE: Final = {
    "cp1256": dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?"),
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "greek": {0xA1: "ʽ", 0xA2: "ʼ", **dict.fromkeys((0xA4, 0xA5, 0xAA), "?")},
    "hebrew": {0xAF: "‾"},
    "koi8u": {0x95: "•"},
}
#: swe7 has letters at the codes of ten of ASCII's symbols.
SWE7: Final = {
    **dict(zip(map(ord, "@[\\]^`{|}~"), "ÉÄÖÅÜéäöåü", strict=True)),
    **dict.fromkeys(range(0x7F, 0x100), "?"),
}
