"""The OpenAPI 3.1 document, made of what the routes say of themselves (`described`) and of the models that read their bodies.

Pure. It knows no route: it is given them.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute, Route

from agentkit_server.answers import ProblemAnswer
from agentkit_server.described import Description, Parameter, Reply
from agentkit_server.problems import Endpoint
from agentkit_server.service import NAME
from agentkit_transports.problem import MEDIA_TYPE

References: TypeAlias = dict[type[BaseModel], Any]

_PLACE: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_EVERY: Final = {400: "Malformed.", 404: "There is no such thing, or not for you.", 429: "Too much at once.", 500: "A fault of ours.", 503: "Not now."}  # fmt: skip
_GUARDED: Final = {401: "Say who you are.", 403: "You may not."}
_WITH_BODY: Final = {413: "Too large.", 415: "Not JSON.", 422: "Does not fit."}
_JSON_REF: Final = {"$ref": "#/components/schemas/JsonValue"}
_JSON: Final = {
    "description": "Any JSON. Numbers without a fraction are of 64 bits.",
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number"},
        {"type": "array", "items": _JSON_REF},
        {"type": "object", "additionalProperties": _JSON_REF},
    ],
}
_FRAME: Final = {
    "description": "Frames of the stream: each has an envelope, or one of the stream's own words, as `data`.",
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string"},
        "data": {"type": "string"},
        "retry": {"type": "integer"},
    },
    "required": ["data"],
}
_PLACES: Final = {
    "agent": "An agent's name.",
    "thread": "A thread's name.",
    "run": "A run's id.",
    "approval": "The id of a call that waits for a decision.",
}


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the document of all routes that are described."""
    found = [
        (route, description)
        for route in routes
        if isinstance(route, Route) and (description := description_of(route)) is not None
    ]
    schemas, references = _schemas([description for _, description in found])
    paths: dict[str, dict[str, Any]] = {}
    for route, description in found:
        path = _PLACE.sub(r"{\1}", route.path)
        for method in sorted(set(route.methods or ()) - {"HEAD"}):
            paths.setdefault(path, {})[method.lower()] = _operation(route, method, description, references)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "agentkit",
            "version": _version(),
            "description": "Agents whose reasoning, text and tool work come live, in order and resumable. "
            "The feed's events: schemas/envelope.json. The socket at /v1/ws: schemas/socket.json.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def description_of(route: Route) -> Description | None:
    """Return what a route says of itself."""
    return route.app.description if isinstance(route.app, Endpoint) else None


@cache
def _version() -> str:
    try:
        return metadata.version("agentkit-live")
    except metadata.PackageNotFoundError:
        return "0"


def _schemas(descriptions: Sequence[Description]) -> tuple[dict[str, Any], References]:
    """Return the components, and where each model stands in them: two of one name get longer ones."""
    bodies = {one.body for one in descriptions if one.body is not None}
    answers = {a.body for one in descriptions for a in one.answers.values() if a.body is not None}
    answers |= {one.problem for one in descriptions if one.problem is not None} | {ProblemAnswer}
    models = sorted(bodies | answers, key=lambda model: (model.__name__, model.__module__))
    found, made = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Any] = made.get("$defs", {})
    references: References = {model: found[model, "validation"] for model in models}
    if "JsonValue" in schemas:
        schemas["JsonValue"] = _JSON
    for model in answers:
        _leave_out_none(schemas[references[model]["$ref"].rpartition("/")[2]])
    return dict(sorted(schemas.items())), references


def _leave_out_none(schema: dict[str, Any]) -> None:
    """Absent members are left out of answers, never null."""
    for member in schema.get("properties", {}).values():
        kinds = member.get("anyOf")
        if kinds and {"type": "null"} in kinds and member.get("default", ...) is None:
            left = [kind for kind in kinds if kind != {"type": "null"}]
            del member["default"]
            if len(left) == 1:
                del member["anyOf"]
                member.update(left[0])
            else:
                member["anyOf"] = left


def _operation(route: Route, method: str, said: Description, references: References) -> dict[str, Any]:
    endpoint = route.app
    assert isinstance(endpoint, Endpoint), "who is described is an endpoint"
    places = [(name, "path") for name in _PLACE.findall(route.path)]
    out: dict[str, Any] = {
        "operationId": f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', route.path).rstrip('_')}",
        "summary": said.summary,
        "tags": [said.tag],
        "parameters": [
            *(_place(name) for name, _ in places),
            *(_parameter(one, "query") for one in said.query),
            *(_parameter(one, "header") for one in said.headers),
        ],
        "responses": _responses(said, references, is_public=endpoint.is_public),
    }
    if said.body is not None:
        schema = references[said.body]
        out["requestBody"] = {
            "required": not said.is_body_optional,
            "content": {"application/json": {"schema": schema}},
        }
    if not endpoint.is_public:
        out["security"] = [{"bearer": []}, {}]
    return out


def _place(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if name in ("agent", "thread", "run"):
        schema["pattern"] = f"^{NAME.pattern}$"
    else:
        schema["minLength"] = 1
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PLACES.get(name, "A name."),
        "schema": schema,
    }


def _parameter(one: Parameter, place: str) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": place,
        "required": one.required,
        "description": one.said,
        "schema": dict(one.schema),
    }


def _responses(said: Description, references: References, *, is_public: bool) -> dict[str, Any]:
    refusals = {**_EVERY, **({} if is_public else _GUARDED), **(_WITH_BODY if said.body else {})}
    refusals |= {status: "Refused." for status in said.refuses if status not in refusals}
    out = {str(status): _answer(answer, references) for status, answer in said.answers.items()}
    model = said.problem or ProblemAnswer
    media_type = MEDIA_TYPE if said.problem is None else "application/json"
    content = {media_type: {"schema": references[model]}}
    for status, words in refusals.items():
        out.setdefault(str(status), {"description": words, "content": content})
    return dict(sorted(out.items()))


def _answer(answer: Reply, references: References) -> dict[str, Any]:
    out: dict[str, Any] = {"description": answer.said}
    if answer.headers:
        out["headers"] = {name: {"schema": {"type": "string"}} for name in answer.headers}
    if not answer.is_empty:
        schema: dict[str, Any] = {"type": "string"}
        if answer.media_type == "text/event-stream":
            schema = _FRAME
        if answer.body is not None:
            schema = references[answer.body]
        elif answer.media_type == "application/json":
            schema = {"type": "object"}
        out["content"] = {answer.media_type: {"schema": schema}}
    return out
