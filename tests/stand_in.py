"""A model for documents' snippets: it answers whatever it is asked, without a key and without a network.

It thinks a word, calls each tool that it is given once, with arguments made up from the tool's schema, and then says a word (or JSON of
the schema that was asked for). Not for tests of behaviour: those write a script.
"""

import json
from typing import Any

from agentkit.content import Origin, Usage
from agentkit.model import ModelRequest, ModelStream
from agentkit.testing import Call, Say, ScriptedModel, Think
from agentkit.testing.scripted import Part

EXAMPLES: dict[str, Any] = {
    "string": "word",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "null": None,
    "array": [],
}


def example(schema: Any, root: Any = None) -> Any:
    """Return a value that fits a JSON schema of the simple kind."""
    root = root if root is not None else schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    for word in ("default", "const"):
        if word in schema:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return example(options[0], root)
    kind = schema.get("type", "string")
    if kind == "object":
        members = schema.get("properties", {})
        return {name: example(members[name], root) for name in schema.get("required", members)}
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return EXAMPLES[kind]


class StandIn:
    """A `Model` that plays along."""

    origin = Origin("scripted", "stand-in", "stand-in")

    def __init__(self, *_: object, **__: object) -> None:
        """Take what `connect` takes, and care for none of it."""

    def stream(self, request: ModelRequest) -> ModelStream:
        parts: list[Part] = [Think("Let me see.", "c2ln")]
        asked = request.messages[-1].role == "user"
        if request.tools and asked:
            parts += [
                Call(spec.name, example(spec.parameters), id=f"call_{spec.name}") for spec in request.tools
            ]
        else:
            said = json.dumps(example(request.output_schema)) if request.output_schema else "I stand in."
            parts.append(Say(said, pieces=2))
        return ScriptedModel([*parts, Usage(12, 7, reasoning_tokens=3)]).stream(request)
