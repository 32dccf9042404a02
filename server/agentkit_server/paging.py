"""Pages of a list: `?limit=` and `?after=<key>`, and in the answer `next` where more follows."""

from starlette.requests import Request

from agentkit_transports.problem import Problem, ProblemError


def limit_of(request: Request, most: int) -> int:
    """Return `?limit=`, or `most` where it is missing or larger.

    Raises:
        ProblemError: 400.
    """
    text = request.query_params.get("limit", str(most))
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0):
        raise ProblemError(Problem(400, "malformed", "limit is a whole number from 1", field="limit"))
    return min(int(text), most)
