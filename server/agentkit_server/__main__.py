"""`python -m agentkit_server`: the same as `agentkit serve`."""

import sys

from agentkit_server.cli import app

app(["serve", *sys.argv[1:]])
