"""Prevents web pages from using the port through their visitors' browsers, which can reach it. Pure.

A browser sends three kinds of requests to another site without a preflight: GET, HEAD, and POST of forms and plain
text. So a POST must carry JSON, which needs a preflight that this port never permits. A page could also point its own
host name at this machine and count as the same site: so a request's Host must be one of this port's names. With HTTP/2
a POST may look like a gRPC call, but it has an Origin, which gRPC clients never send.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping

_JSON = "application/json"
#: What a page's form sends.
_FORM = "application/x-www-form-urlencoded"
_READS = ("GET", "HEAD")
_PORTS = {"http": 80, "https": 443}


def refused_host(headers: Mapping[str, str], hosts: Collection[str]) -> str:
    """Why a request for a host other than ``hosts``, ``localhost`` or an IP address is refused; '' when it is accepted.

    ``headers`` have lower-case names. Only programs leave Host out.
    """
    host = headers.get("host", "").strip()
    name = _split(host, 0)[0]
    if not host or name == "localhost" or _is_address(name) or name in hosts:
        return ""
    return (
        f"this is not {host}: use one of this port's addresses, {', '.join([*sorted(hosts), 'its IP address'])}; "
        "add other names to `allowed-hosts` in the configuration"
    )


def refused_origin(method: str, headers: Mapping[str, str]) -> str:
    """Why a change requested by a page of another site is refused; '' for no such page. ``headers`` as above."""
    origin = headers.get("origin", "").strip()
    if method in _READS or not origin:
        return ""
    scheme, _, place = origin.partition("://")
    port = _PORTS.get(scheme.lower(), 0)
    if port and _split(place, port) == _split(headers.get("host", "").strip(), port):
        return ""
    return f"a page of {origin} may not change anything here"


def refused_type(
    method: str, headers: Mapping[str, str], has_body: bool, *, forms: bool = False, bare_posts: bool = False
) -> str:
    """Why a change in another form than JSON is refused; '' when it is JSON. ``headers`` as above.

    ``forms``: forms of pages are accepted, too, because each has a token that only this port's own pages know.
    ``bare_posts``: a POST with neither body nor type passes. Of a page it has an Origin, and a form has a type.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method in _READS or kind == _JSON or (forms and kind == _FORM):
        return ""
    if not has_body and (method != "POST" or (bare_posts and not kind)):
        return ""
    return (
        f"the request must declare its content as JSON, not {kind or 'nothing'}: send the header `Content-Type: "
        f"{_JSON}`, such as with curl -H 'Content-Type: {_JSON}'"
    )


def host_name(address: str) -> str:
    """The host of ``host:port``, in the form for comparisons: ``::1`` of ``[::1]``, ``dm.example`` of
    ``DM.example.``"""
    return _split(address, 0)[0]


def _split(address: str, port: int) -> tuple[str, int]:
    """Host and port of ``host``, ``host:port``, ``[v6]`` and ``[v6]:port``; ``port`` where there is none."""
    text = address.lower()
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        number = rest.removeprefix(":")
    else:
        host, _, number = text.partition(":")
    return host.rstrip("."), int(number) if number.isdecimal() else port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
