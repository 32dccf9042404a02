"""llama.cpp's own HTTP server in a process of its own: `python -m agentkit.local_server WEIGHTS.gguf`.

Not pure: it serves, on loopback only, bounded in threads, context and memory; with `LLAMA_API_KEY` set it asks everybody for that key.
Its first line on standard output is its base address; whatever it says after goes to standard error. It ends when standard input closes,
or its parent does, so that it dies with whatever killed the one that started it. It knows nothing of agentkit (see `local_model`).
Source: the parameters of llama.cpp's server (tools/server/README.md, read 2026-11-30), as `xllamacpp` names them.
"""

import argparse
import os
import select
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

CHAT_TEMPLATE = """\
{%- if tools -%}
{{- '<|im_start|>system\\n' -}}
{%- if messages[0].role == 'system' -%}{{- messages[0].content + '\\n\\n' -}}{%- endif -%}
{{- 'You may call these functions:\\n<tools>' -}}
{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\\n</tools>\\nTo call one, write:\\n<tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call><|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if not (tools and loop.first and message.role == 'system') -%}
{{- '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' -}}
{%- if message.role == 'assistant' and message.reasoning_content -%}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}
{%- endif -%}
{%- if message.role == 'tool' -%}{{- '<tool_response>\\n' -}}{%- endif -%}
{%- if message.content is string -%}{{- message.content -}}
{%- elif message.content -%}{{- message.content | map(attribute='text') | join('') -}}
{%- endif -%}
{%- if message.role == 'tool' -%}{{- '\\n</tool_response>' -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments if call.function.arguments is string else call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n<think>\\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}{{- '\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}
"""
"""ChatML with an opened `<think>`: an instruct model that knows no reasoning reasons before it answers.

The server takes the marks of reasoning and of calls from it, by rendering messages that have them and messages that have not.
"""

ALIAS = "local"
"""The model's name in answers."""
PROMPT_CACHE = 64
"""MiB of earlier prompts that are kept; the server's own choice is 8 GiB."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the parent, for an end that standard input does not tell: another child may hold the pipe too."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input closes or the parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m agentkit.local_server", description="Serve a GGUF file.")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--threads", type=int, default=default_threads(), help="that compute")
    parser.add_argument("--context", type=int, default=8192, help="tokens, of all slots together")
    parser.add_argument("--slots", type=int, default=2, help="answers at the same time; more wait")
    parser.add_argument("--memory", type=int, default=2048, help="MiB beside twice the weights")
    parser.add_argument(
        "--opened-think", action="store_true", help="use a chat template that makes the model reason"
    )
    options = parser.parse_args(arguments)
    if not options.weights.is_file():
        parser.error(f"no such file: {options.weights}")
    threading.Thread(target=_end_with_parent, args=[os.getppid()], daemon=True).start()
    _limit_memory((options.memory << 20) + 2 * options.weights.stat().st_size)
    address = _serve(options)
    print(address, flush=True)  # noqa: T201 - the word that the parent waits for
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads on: a full pipe would stop the server
    threading.Event().wait()


def default_threads() -> int:
    """Return how many threads compute: one core is left for the rest, and more than four gain little.

    The threads wait for each other in a spin: one that has no core to itself makes all of them several times slower.
    """
    return max(1, min(4, len(os.sched_getaffinity(0)) - 1)) if sys.platform == "linux" else 1


def _serve(options: argparse.Namespace) -> str:
    """Load the weights, begin to listen and return the base address."""
    try:
        import xllamacpp  # type: ignore[import-untyped,import-not-found,unused-ignore]  # an extra without stubs
    except ImportError as error:
        raise SystemExit(f"{error}: pip install 'agentkit-live[local]'") from None

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(options.weights)
    parameters.model_alias = {ALIAS}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = options.context
    parameters.n_parallel = options.slots
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.n_threads_http = options.slots + 4
    parameters.cache_ram_mib = PROMPT_CACHE
    parameters.verbosity = 1
    parameters.use_jinja = True
    if options.opened_think:
        parameters.chat_template = CHAT_TEMPLATE
    parameters.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_DEEPSEEK
    parameters.endpoint_slots = True
    parameters.ui = False
    parameters.cors_origins = ""
    parameters.cors_origins_explicit = True
    key = os.environ.get("LLAMA_API_KEY")
    if key:
        parameters.api_keys = [key]
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:  # llama.cpp has said why
        raise SystemExit(str(error)) from None
    _kept.append(server)
    return str(server.listening_address)


_kept: list[object] = []
"""A server serves as long as it is referred to."""


def _limit_memory(limit: int) -> None:
    """Bound what this process may allocate, in bytes. Mapped files do not count, so weights of any size can be read."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _end_with_parent(parent: int) -> None:
    """End the process once standard input closes or the parent is another: at once, without llama.cpp's own farewells."""
    while os.getppid() == parent:
        if select.select([0], [], [], LOOK_EVERY)[0] and not os.read(0, 1024):
            break
    os._exit(0)


if __name__ == "__main__":
    main()
