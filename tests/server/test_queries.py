"""No query in uvicorn's own log."""

import logging

import pytest

from agentkit_server.queries import LOGGERS, hide_queries

SAID = [
    pytest.param(
        '%s - "%s %s HTTP/%s" %d', ("1.2.3.4:5", "GET", "/v1/x?ticket=CANARY", "1.1", 200), id="a request"
    ),
    pytest.param('%s - "WebSocket %s" [accepted]', ("1.2.3.4:5", "/v1/ws?token=CANARY"), id="a socket"),
    pytest.param("ASGI [%d] Started scope=%s", (1, "{'query_string': '/?x=CANARY'}"), id="a scope"),
]


@pytest.mark.parametrize("name", LOGGERS)
@pytest.mark.parametrize(("message", "args"), SAID)
def test_what_follows_the_question_mark_is_left_out(
    caplog: pytest.LogCaptureFixture, name: str, message: str, args: tuple[object, ...]
) -> None:
    hide_queries()
    hide_queries()
    with caplog.at_level(logging.INFO, logger=name):
        logging.getLogger(name).info(message, *args)

    assert "CANARY" not in caplog.text
    assert "?…" in caplog.text
