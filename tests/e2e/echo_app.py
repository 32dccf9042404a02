"""A server that says back what a WebSocket says, on our own protocol classes and settings: for suites that test the stack itself.

Run as a script; it prints its address.
"""

from agentkit_server.server import listen, make_server, url_of
from agentkit_server.settings import Settings
from agentkit_transports.asgi import Receive, Scope, Send


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Say back every message until the peer leaves."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        said = {name: message[name] for name in ("text", "bytes") if message.get(name) is not None}
        await send({"type": "websocket.send", **said})


def main() -> None:
    settings = Settings(ping_interval=60, ping_timeout=60)
    listener = listen("127.0.0.1", 0, settings)
    print(f"serving at {url_of(listener)}", flush=True)
    make_server(echo, settings).run(sockets=[listener])


if __name__ == "__main__":
    main()
