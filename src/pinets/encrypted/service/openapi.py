"""The OpenAPI description of the service."""

from __future__ import annotations

from typing import Any

from pinets import __version__
from pinets.encrypted.plan import Plan

__all__ = ["describe"]

_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
    "additionalProperties": False,
}
_REASONS = {
    400: "The body is malformed, or holds a secret key.",
    401: "The token is missing or wrong.",
    404: "There are no keys with this id.",
    408: "The body arrives too slowly.",
    409: "The body belongs to another plan or to other keys.",
    413: "The body is too large.",
    500: "A worker failed; the request may be sent again.",
    503: "The queue is full; Retry-After says when to come back.",
    504: "The evaluation took too long.",
    507: "There is no room for the keys.",
}


def describe(plan: Plan, *, needs_token: bool) -> dict[str, Any]:
    """The description of a service with this plan."""
    numbers, text = {"type": "integer", "minimum": 0}, {"type": "string"}
    limits = _object(inputs=numbers, key_bytes=numbers, request_bytes=numbers)
    state = _object(workers=numbers, waiting=numbers)
    told = _object(
        identity=text,
        plan={"type": "object"},
        preparation={"type": "object"},
        needs_token={"type": "boolean"},
        limits=limits,
    )
    keys = _object(id=text, keys=text, expires_in_seconds={"type": "number"})
    key_id = {"name": "id", "in": "path", "required": True, "schema": {**text, "minLength": 1}}
    outputs = {
        "description": "The encrypted outputs, one container for each input, as they are ready.",
        "content": {"application/octet-stream": {}},
    }

    def secured(summary: str, answers: dict[str, Any], *errors: int, **more: Any) -> dict[str, Any]:
        """A route that wants the token, if there is one."""
        token: dict[str, Any] = {"security": [{"token": []}]} if needs_token else {}
        refused = _errors(*errors, *([401] if needs_token else []))
        return {"summary": summary, "responses": {**answers, **refused}, **more, **token}

    paths = {
        "/": {"get": {"summary": "A page that encrypts in the browser.", "responses": {"200": _text("text/html")}}},
        "/plan": {
            "get": {
                "summary": "The plan that client and server agree on.",
                "responses": {"200": _json(told, "The plan, its identity, and the limits of the service.")},
            }
        },
        "/keys": {
            "post": secured(
                "Store evaluation keys; gives the id to evaluate with.",
                {"201": _json(keys, "The keys are stored.")},
                *(400, 408, 409, 413, 500, 503, 504, 507),
                requestBody=_binary_body("Evaluation keys, as pinets.encrypted.make_keys makes them."),
            )
        },
        "/evaluate/{id}": {
            "post": secured(
                "Evaluate encrypted inputs.",
                {"200": outputs},
                *(400, 404, 408, 409, 413, 500, 503, 504),
                parameters=[key_id],
                requestBody=_binary_body("Encrypted inputs, as pinets.encrypted.Client.encrypt makes them."),
            )
        },
        "/health": {
            "get": {
                "summary": "Whether there are workers.",
                "responses": {"200": _json(state, "There are."), "503": _json(state, "There are none at the moment.")},
            }
        },
        "/metrics": {"get": secured("Counters in the text format of Prometheus.", {"200": _text("text/plain")})},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pinets encrypted inference",
            "version": __version__,
            "description": f"Evaluates a network of degree {plan.degree} on inputs that the server cannot read.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _text(media: str) -> dict[str, Any]:
    return {"description": "Text.", "content": {media: {"schema": {"type": "string"}}}}


def _binary_body(description: str) -> dict[str, Any]:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "required": True, "content": content}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): _json(_ERROR, _REASONS[status]) for status in statuses}
