"""What clients may say: the bodies of requests, and the blocks of a user's message.

A client speaks as the user: text, images, documents. Thinking, calls and provider state are the runtime's to write.
"""

import base64
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from agentkit.content import Block, DocumentBlock, ImageBlock, TextBlock
from agentkit.reasoning import EFFORTS
from agentkit_transports.problem import Problem, ProblemError

MAX_BLOCKS = 64
"""Blocks of one message."""


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True)


_TEXT: Final[JsonSchemaValue] = {"type": "string", "pattern": r"\S"}
_BASE64: Final = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"


def _block_schema(kind: str, required: list[str], **members: JsonSchemaValue) -> JsonSchemaValue:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **members},
        "required": ["type", *required],
        "additionalProperties": False,
    }


def _input_schema() -> JsonSchemaValue:
    """Return what `read_input` takes, for the description of the API."""
    kind: JsonSchemaValue = {"type": "string", "maxLength": 200}
    data: JsonSchemaValue = {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
    url: JsonSchemaValue = {"type": "string", "minLength": 1, "maxLength": 8192}
    media = [
        _block_schema(name, required, **{"media_type": kind, **source, **more})
        for name, more in (("image", {}), ("document", {"name": {"type": "string", "maxLength": 1024}}))
        for source, required in (
            ({"data": data, "media_type": {**kind, "minLength": 1}}, ["data", "media_type"]),
            ({"url": url}, ["url"]),
        )
    ]
    listed = {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_BLOCKS,
        "items": {"anyOf": [_block_schema("text", ["text"], text={"type": "string"}), *media]},
        "contains": {"anyOf": [_block_schema("text", ["text"], text=_TEXT), *media]},
    }
    return {"description": "Text, or blocks of text, images and documents.", "anyOf": [_TEXT, listed]}


_Input = Annotated[JsonValue, WithJsonSchema(_input_schema())]


def _whole(value: Any) -> Any:
    """Take `512.0` for 512: in JSON it is the same number."""
    budget = value.get("budget") if isinstance(value, dict) else None
    return {**value, "budget": int(budget)} if isinstance(budget, float) and budget.is_integer() else value


_Reasoning = Annotated[
    dict[str, JsonValue] | None,
    BeforeValidator(_whole),
    WithJsonSchema(
        {
            "description": "How much the model shall reason: an effort, or a budget of tokens.",
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"effort": {"enum": sorted(EFFORTS)}},
                    "required": ["effort"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"budget": {"type": "integer", "minimum": 0}},
                    "required": ["budget"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ],
        }
    ),
]


class RunBody(_Strict):
    """`POST …/runs`."""

    input: _Input
    """Text, or a list of blocks (see `read_input`)."""
    reasoning: _Reasoning = None
    """`{"effort": …}` or `{"budget": tokens}`."""
    on_disconnect: Literal["cancel", "continue"] = "continue"
    """What becomes of the run if a client that asked for its feed leaves."""
    on_busy: Literal["reject", "queue"] = "reject"
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class ChatBody(_Strict):
    """`POST …/chat`."""

    message: _Input
    reasoning: _Reasoning = None
    on_busy: Literal["reject", "queue"] = "reject"


class CancelBody(_Strict):
    """`POST …/cancel`; the body may be missing."""

    reason: Annotated[str, Field(max_length=200)] = ""


class SteerBody(_Strict):
    """`POST …/steer`."""

    input: Annotated[JsonValue, WithJsonSchema(_TEXT)]
    """Text (see `read_text`)."""


class ApprovalBody(_Strict):
    """`POST …/approvals/{id}`."""

    approved: bool
    reason: Annotated[str, Field(max_length=4096)] = ""
    """Told to the model where the call is denied."""


def _base64(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise ValueError("is not base64") from None
    return data


_Data = Annotated[str, AfterValidator(_base64)]


class _Media(_Strict):
    media_type: Annotated[str, Field(max_length=200)] = ""
    data: _Data = ""
    url: Annotated[str, Field(max_length=8192)] = ""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.data) == bool(self.url):
            raise ValueError("needs either data or a url")
        if self.data and not self.media_type:
            raise ValueError("data needs a media_type")
        return self


class _Text(_Strict):
    type: Literal["text"]
    text: str

    def block(self) -> Block:
        return TextBlock(self.text)


class _Image(_Media):
    type: Literal["image"]

    def block(self) -> Block:
        return ImageBlock(self.media_type, self.data, self.url)


class _Document(_Media):
    type: Literal["document"]
    name: Annotated[str, Field(max_length=1024)] = ""

    def block(self) -> Block:
        return DocumentBlock(self.media_type, self.data, self.url, self.name)


_BLOCKS: TypeAdapter[list[_Text | _Image | _Document]] = TypeAdapter(
    list[Annotated[_Text | _Image | _Document, Field(discriminator="type")]],
    config=ConfigDict(defer_build=True),  # with the first message of blocks
)


def read_text(value: Any, field: str = "input") -> str:
    """Return what is put into a run: text only.

    Raises:
        ProblemError: 422, naming the member at fault.
    """
    text = read_input(value, field)
    if not isinstance(text, str):
        raise _invalid(field, "should be text")
    return text


def read_input(value: Any, field: str = "input") -> str | list[Block]:
    """Return a user's message: text as it is, a list as blocks.

    Raises:
        ProblemError: 422, naming the member at fault. What stood there is not repeated.
    """
    if isinstance(value, str):
        if not value:
            raise _invalid(field, "must not be empty")
        return value
    if not isinstance(value, list):
        raise _invalid(field, "should be text or a list of blocks")
    if not 0 < len(value) <= MAX_BLOCKS:
        raise _invalid(field, f"should hold 1 to {MAX_BLOCKS} blocks, got {len(value)}")
    try:
        return [block.block() for block in _BLOCKS.validate_python(value)]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        index, *rest = first["loc"]
        place = "".join(f".{part}" for part in rest[1:])  # rest[0] is the tag
        said = first["msg"]
        if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
            place, said = ".type", "should be text, image or document"
        raise _invalid(f"{field}[{index}]{place}"[:200], said) from None


def _invalid(field: str, said: str) -> ProblemError:
    return ProblemError(Problem(422, "invalid", f"{field}: {said}", field=field))
