"""A server on which people are asked who they are, as a script: keys in a file, tokens of an issuer, quick timers.

`python guarded.py FOLDER`: the folder gets `keys`, and `log` with everything that any logger says.
"""

import json
import logging
import os
import sys
from pathlib import Path

from agentkit.agent import Agent
from agentkit.testing import Say, ScriptedModel, Think, Wait
from agentkit.testing.scripted import Part
from agentkit_server import Settings, create_app
from agentkit_server.auth import AnyOf
from agentkit_server.auth_jwt import JWTAuth
from agentkit_server.auth_keys import APIKeyFile, new_key
from agentkit_server.server import listen, make_server

SECRET = "canary-shared-secret-of-more-than-32-bytes"
ISSUER = "https://id.example"
FRONT = "https://front.example"
ANSWER = "and here it is"


def agents() -> list[Agent]:
    """`quick` answers at once; `held` never does."""
    quick: list[Part] = [Think("one two three ", pieces=5), Say(ANSWER, pieces=5)]
    return [
        Agent("quick", model=ScriptedModel(quick, repeat=True)),
        Agent("held", model=ScriptedModel([Think("hm"), Wait(3600)], repeat=True)),
    ]


def main(folder: Path) -> None:
    """Serve, and print the address."""
    lines, keys = [], {}
    for name in ("ann", "bob", "crowd"):
        keys[name], line = new_key(name)
        lines.append(line)
    (folder / "keys").write_text("\n".join(lines))
    (folder / "secrets.json").write_text(json.dumps(keys))
    logging.basicConfig(filename=folder / "log", level=logging.DEBUG)
    settings = Settings(
        allowed_origins=(FRONT,),
        connections_each=20,
        runs_each=10,
        body_size=20_000,
        head_timeout=5.0,
        body_timeout=5.0,
        send_timeout=1.0,
        heartbeat=0.5,
        hello_timeout=0.5,
        ticket_timeout=float(os.environ.get("TICKET_TIMEOUT", "3")),
        recheck=0.2,
        drain_timeout=0.2,
        farewell_timeout=0.5,
        retry_ms=(1, 2),
    )
    tokens = JWTAuth(algorithms=["HS256"], audience="agents", issuer=ISSUER, key=SECRET, leeway=0)
    auth = AnyOf([APIKeyFile(folder / "keys"), tokens])
    listener = listen("127.0.0.1", 0, settings)
    print(f"at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    make_server(create_app(agents(), settings=settings, auth=auth), settings).run(sockets=[listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
