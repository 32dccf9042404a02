"""`python -m agentkit_server`: the same as `agentkit serve`."""

import sys

from agentkit_server.command import main

main(["serve", *sys.argv[1:]])
