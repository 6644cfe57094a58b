"""Keeps web pages from using the port through their visitors' browsers, which reach it where the pages can't. Pure.

A browser sends three kinds of requests to another site without asking it first: GET, HEAD, and POST of forms and plain
text. So a POST must bring JSON, which a browser asks about beforehand and nobody here permits. The page's own name,
made to point at this machine, would be the same site: so a request's Host must be a name that is this port's. With
HTTP/2 a POST may look like a call of gRPC, but for the Origin that no client of gRPC has.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping

_JSON = "application/json"
_READS = ("GET", "HEAD")
_PORTS = {"http": 80, "https": 443}


def refused_host(headers: Mapping[str, str], hosts: Collection[str]) -> str:
    """Why a request for another host than ``hosts``, ``localhost`` or an IP address is refused; '' when it is not.

    ``headers`` have names in lower case. Only programs leave Host out.
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
    """Why a change that a page of another site asks for is refused; '' when none does. ``headers`` as above."""
    origin = headers.get("origin", "").strip()
    if method in _READS or not origin:
        return ""
    scheme, _, place = origin.partition("://")
    port = _PORTS.get(scheme.lower(), 0)
    if port and _split(place, port) == _split(headers.get("host", "").strip(), port):
        return ""
    return f"a page of {origin} may not change anything here"


def refused_type(method: str, headers: Mapping[str, str], has_body: bool) -> str:
    """Why a change in another form than JSON is refused; '' when it is JSON. ``headers`` as above."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method in _READS or kind == _JSON or (method != "POST" and not has_body):
        return ""
    return (
        f"the request must declare its content as JSON, not {kind or 'nothing'}: send the header `Content-Type: "
        f"{_JSON}`, such as with curl -H 'Content-Type: {_JSON}'"
    )


def host_name(address: str) -> str:
    """The host of ``host:port``, as names are compared here: ``::1`` of ``[::1]``, ``dm.example`` of ``DM.example.``"""
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
