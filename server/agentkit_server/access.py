"""Who may do what: the one place that turns a request and a thread's name into a topic.

Every route that touches a thread comes through here. Without authentication anybody may do everything, and every thread's owner is "".
"""

from starlette.requests import Request

from agentkit.log import Topic
from agentkit_server.service import Service
from agentkit_transports.backend import Action


async def topic_of(request: Request, service: Service, action: Action, agent: str, thread: str) -> Topic:  # noqa: ARG001
    """Return the topic of a thread on which the request's sender may do `action`.

    Raises:
        ProblemError: 401 nobody known, 404 no such agent or not for the sender, 400 no name of a thread.
    """
    return service.topic(agent, thread)
