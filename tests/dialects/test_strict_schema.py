"""A schema is made strict without being changed, or not at all."""

import copy
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentkit.dialects.strict_schema import strict_schema

pytestmark = pytest.mark.pure


class Inner(BaseModel):
    """Of no account."""

    n: int = 1


class Outer(BaseModel):
    kind: Literal["a", "b"] = "a"
    inner: Inner = Field(default_factory=Inner, description="the inner one")
    many: list[Inner] = []
    maybe: str | None = None


def test_a_model_of_pydantic_becomes_strict() -> None:
    schema = Outer.model_json_schema()
    before = copy.deepcopy(schema)

    strict = strict_schema(schema)

    assert schema == before
    assert strict == {
        "title": "Outer",
        "type": "object",
        "$defs": {
            "Inner": {
                "title": "Inner",
                "description": "Of no account.",
                "type": "object",
                "properties": {"n": {"title": "N", "type": "integer"}},
                "additionalProperties": False,
                "required": ["n"],
            }
        },
        "properties": {
            "kind": {"enum": ["a", "b"], "title": "Kind", "type": "string"},
            "inner": {"anyOf": [{"$ref": "#/$defs/Inner"}], "description": "the inner one"},
            "many": {"items": {"$ref": "#/$defs/Inner"}, "title": "Many", "type": "array"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Maybe"},
        },
        "additionalProperties": False,
        "required": ["kind", "inner", "many", "maybe"],
    }
    assert strict_schema(strict) == strict


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array", "items": {"type": "string"}}, id="no object"),
        pytest.param({"anyOf": [{"type": "object", "properties": {}}]}, id="a choice at the top"),
        pytest.param({"type": "object"}, id="an object of anything"),
        pytest.param({"type": "object", "properties": {}, "additionalProperties": True}, id="open"),
        pytest.param({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {}}}}, id="open inside"),
        pytest.param({"type": "object", "properties": {"a": {"oneOf": []}}}, id="oneOf"),
        pytest.param({"type": "object", "properties": {"a": True}}, id="anything"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_strictly_is_not(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_a_member_may_be_called_like_a_keyword() -> None:
    schema = {"type": "object", "properties": {"default": {"type": "string"}, "oneOf": {"type": "string"}}}

    strict = strict_schema(schema)

    assert strict is not None
    assert strict["required"] == ["default", "oneOf"]
