"""The contract of the API, ``dm.yaml``: its requests and their required form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast
from urllib.parse import parse_qs, unquote

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from dm_master.openapi.refusal import Refusal, bad_request

Schema = Mapping[str, Any]
_BOOLEANS = {"true": True, "false": False}
_METHODS = ("get", "post", "put", "delete")


def _pattern(_: Any, pattern: str, value: Any, __: Schema) -> Iterator[ValidationError]:
    """``$`` of a schema is the end of the text; Python's is also before a last line break."""
    if isinstance(value, str) and re.search(re.sub(r"\$$", r"\\Z", pattern), value) is None:
        yield ValidationError(f"does not match {pattern}")


def _format(_: Any, name: str, value: Any, __: Schema) -> Iterator[ValidationError]:
    """Of the formats that ``dm.yaml`` has, ``int64`` limits the values."""
    if name == "int64" and isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        yield ValidationError("is not a number of 64 bits")


SchemaValidator = extend(Draft202012Validator, {"pattern": _pattern, "format": _format})  # type: ignore[no-untyped-call]  # its stub has no types


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A checked request: parameters of the path, of the query (only those given), and the body with its defaults."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the contract."""

    id: str
    method: str
    segments: tuple[str, ...]
    status: int
    parameters: Sequence[Schema]
    body: Schema | None

    def match(self, path: Sequence[str]) -> dict[str, str] | None:
        """The values of the path's parameters; None for another path."""
        if len(path) != len(self.segments):
            return None
        found = {}
        for expected, given in zip(self.segments, path, strict=True):
            if expected.startswith("{"):
                found[expected.strip("{}")] = unquote(given)
            elif expected != given:
                return None
        return found


class Contract:
    """The parsed document, with a check for each part of a request."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.document: Mapping[str, Any] = yaml.safe_load(text)
        self.operations = tuple(self._operations())
        # A literal segment before a parameter: `tasks/templates` is not the task `templates`.
        self._by_path = sorted(self.operations, key=lambda one: [part.startswith("{") for part in one.segments])

    def find(self, method: str, path: Sequence[str]) -> tuple[Operation, Mapping[str, str]]:
        """The operation and the path's parameters. Raises a refusal with 404 or 405."""
        allowed: list[str] = []
        chosen: tuple[str, ...] | None = None
        for operation in self._by_path:
            params = operation.match(path)
            if params is None or (chosen is not None and operation.segments != chosen):
                continue
            chosen = operation.segments
            if operation.method == method:
                return operation, params
            allowed.append(operation.method)
        if allowed:
            text = f"method {method} is not allowed here, only {', '.join(sorted(allowed))}"
            raise Refusal(text, status=405)
        raise Refusal(f"no such path: /{'/'.join(path)}", status=404)

    def check(self, operation: Operation, path: Mapping[str, str], query: str, body: bytes) -> ApiCall:
        """Raises a refusal for anything that the contract does not allow."""
        values = self._query(operation, query)
        for parameter in operation.parameters:
            given = path if parameter["in"] == "path" else values
            if parameter["name"] in given:
                self._check(parameter["schema"], given[parameter["name"]], parameter["name"])
        if operation.body is None:
            if body.strip() not in (b"", b"{}", b"null"):
                raise bad_request("this request has no body")
            return ApiCall(path, values)
        content = _parsed(body)
        self._check(operation.body, content, "")
        return ApiCall(path, values, self._completed(operation.body, content))

    def _operations(self) -> Iterator[Operation]:
        for path, item in self.document["paths"].items():
            for method in _METHODS:
                if method not in item:
                    continue
                one = item[method]
                content = one.get("requestBody", {}).get("content", {})
                yield Operation(
                    id=one["operationId"],
                    method=method.upper(),
                    segments=tuple(path.strip("/").split("/")),
                    status=min(int(status) for status in one["responses"] if status != "default"),
                    parameters=tuple(self.resolved(parameter) for parameter in one.get("parameters", ())),
                    body=content["application/json"]["schema"] if content else None,
                )

    def resolved(self, schema: Schema) -> Schema:
        """``schema``, or what its ``$ref`` names."""
        if "$ref" not in schema:
            return schema
        found: Any = self.document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return self.resolved(found)

    def _query(self, operation: Operation, query: str) -> dict[str, Any]:
        given = parse_qs(query, keep_blank_values=True)
        known = {one["name"]: self.resolved(one["schema"]) for one in operation.parameters if one["in"] == "query"}
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise bad_request(f"unknown parameters: {', '.join(unknown)}")
        return {name: _typed(known[name], name, values) for name, values in given.items()}

    def _check(self, schema: Schema, value: Any, where: str) -> None:
        validator = SchemaValidator({**schema, "components": self.document["components"]})
        problem = min(validator.iter_errors(value), key=lambda one: list(map(str, one.absolute_path)), default=None)
        if problem is not None:
            raise bad_request(_described(problem, where))

    def _completed(self, schema: Schema, value: Any) -> Any:
        """``value`` with the contract's defaults, and whole numbers such as 1.0 as integers."""
        schema = self.resolved(schema)
        if isinstance(value, dict):
            known = schema.get("properties", {})
            missing = {name: one["default"] for name, one in known.items() if "default" in one and name not in value}
            other = schema.get("additionalProperties")
            other = other if isinstance(other, dict) else {}
            return missing | {name: self._completed(known.get(name, other), one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._completed(schema.get("items", {}), one) for one in value]
        return int(value) if schema.get("type") == "integer" and isinstance(value, float) else value


@cache
def contract() -> Contract:
    return Contract(files(__package__).joinpath("dm.yaml").read_text(encoding="utf-8"))


def _parsed(body: bytes) -> Any:
    """Raises a refusal for a body that is not valid JSON or not valid Unicode."""
    try:
        value = json.loads(body, parse_constant=_no_constant, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        # The error's own text is left out: it may quote a password.
        raise bad_request(f"the body is not valid JSON ({type(exc).__name__})") from None
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _typed(schema: Schema, name: str, values: list[str]) -> Any:
    if schema["type"] == "array":
        return values
    if len(values) > 1:
        raise bad_request(f"{name} is given more than once")
    if schema["type"] != "boolean":
        return values[0]
    if values[0] not in _BOOLEANS:
        raise bad_request(f"{name} must be true or false")
    return _BOOLEANS[values[0]]


def _described(problem: ValidationError, where: str) -> str:
    """Describes the mistake and its place, without the value, which may be a password."""
    place = ".".join(filter(None, (where, *map(str, problem.absolute_path)))) or "the body"
    rule, limit, given = problem.validator, cast(Any, problem.validator_value), cast(Any, problem.instance)
    known = cast(Any, problem.schema)
    if rule == "required":
        missing = [name for name in limit if name not in given]
        return f"{place}: {', '.join(missing)} must be given"
    if rule == "additionalProperties":
        extra = sorted(set(given) - set(known.get("properties", {})))
        return f"{place}: unknown names {', '.join(extra)}"
    if rule == "type":
        return f"{place}: must be of type {limit}"
    if rule == "enum":
        return f"{place}: must be one of {', '.join(map(repr, limit))}"
    return f"{place}: {rule} must be {limit}"
