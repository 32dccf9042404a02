"""Pages of a list: `?limit=` and `?after=<key>`, and in the answer `next` where more follows."""

from collections.abc import Sequence

from starlette.requests import Request

from agentkit.content import JsonValue
from agentkit_transports.problem import Problem, ProblemError


def page_of(
    request: Request, name: str, items: Sequence[dict[str, JsonValue]], *, key: str, most: int
) -> dict[str, JsonValue]:
    """Return the page that a request asks for.

    Args:
        request: its query is read.
        name: what the list is called in the answer.
        items: the whole list, in its order.
        key: the member that names an item.
        most: items of one page at most.

    Raises:
        ProblemError: 400, naming the parameter; also for an `after` that is not there.
    """
    limit, after = limit_of(request, most), request.query_params.get("after", "")
    start = 0
    if after:
        found = next((place for place, item in enumerate(items) if item[key] == after), None)
        if found is None:
            raise ProblemError(Problem(400, "malformed", "after names nothing here", field="after"))
        start = found + 1
    page = items[start : start + limit]
    out: dict[str, JsonValue] = {name: list(page)}
    if start + limit < len(items):
        out["next"] = page[-1][key]
    return out


def limit_of(request: Request, most: int) -> int:
    """Return `?limit=`, or `most` where it is missing or larger.

    Raises:
        ProblemError: 400.
    """
    text = request.query_params.get("limit", str(most))
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0):
        raise ProblemError(Problem(400, "malformed", "limit is a whole number from 1", field="limit"))
    return min(int(text), most)
