"""From a model's full name to a model: `connect("anthropic:claude-sonnet-4-5")`.

Names become objects here, by the rows of `provider_table`; whoever has a dialect, a URL and a key can make a `StreamingClient` without it.

A base URL of the caller's may come with or without its version: `http://localhost:8000` and `http://localhost:8000/v1` are the same for a
provider whose URL ends with `/v1` (see `endpoint`). Keys are read from the environment when `connect` is called, and never from a file.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.client import StreamingClient, TransportFactory
from agentkit.dialects.base import Dialect, Profile, Target
from agentkit.dialects.table import DIALECTS
from agentkit.endpoint import is_loopback, parse_base_url, with_version
from agentkit.errors import ConfigurationError, quote
from agentkit.faults import Key
from agentkit.pace import RetryPolicy, Timeouts
from agentkit.provider_table import ALIASES, LOCAL, LOCAL_FIRST_BYTE, PROVIDERS, VERSIONS, Provider

if TYPE_CHECKING:
    from pydantic import SecretStr

__all__ = ["PROVIDERS", "Provider", "anthropic", "connect", "find_provider", "google", "openai", "target_of"]


def connect(
    name: str,
    *,
    key: "str | SecretStr | None" = None,
    base_url: str | None = None,
    dialect: str | Dialect | None = None,
    profile: Profile | None = None,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
    retry: RetryPolicy | None = None,
    transport: TransportFactory | None = None,
    fast: bool | None = None,
) -> StreamingClient:
    """Return the model of that name. Nothing is connected before it is used.

    Args:
        name: `provider:model`, such as `anthropic:claude-sonnet-4-5` or `compatible:my-model`; `local:smollm2` and `local:PATH.gguf`
            run on this machine (see `local_model`).
        key: the provider's key; by default it is read from the provider's environment variable.
        base_url: another server that speaks the provider's dialect, with or without its version. The key, if there is one, goes there.
        dialect: another dialect than the provider's, by name or as an object.
        profile: what the model does differently, instead of what the table says.
        headers: sent with every request.
        timeouts: bounds of every wait, in seconds; by default the first byte may take 60, of a local server 600.
        retry: how often a request is made again before its first chunk.
        transport: makes another HTTP transport; see `StreamingClient`.
        fast: whether the faster HTTP transport is taken; see `StreamingClient`. By default where it can be.

    Raises:
        ConfigurationError: an unknown provider or dialect, a key or base URL that is missing or cannot be.
    """
    provider, model = find_provider(name)
    if provider.name == LOCAL and base_url is None:
        if any(given is not None for given in (key, dialect, headers, transport, fast)):
            raise ConfigurationError(
                "a local model has no key, dialect, headers or transport of the caller's"
            )
        return _local(provider, model, profile, timeouts, retry)
    spoken = _dialect(dialect if dialect is not None else provider.dialect)
    url, is_own = _base_url(provider, spoken, base_url)
    local = provider.local or is_loopback(url)
    target = target_of(provider, model, endpoint="" if is_own else url)
    return StreamingClient(
        spoken,
        target if profile is None else replace(target, profile=profile),
        url,
        key=_key(provider, key, needed=not local and is_own),
        key_hint=" or ".join(provider.key_variables),
        headers=headers,
        timeouts=timeouts or (Timeouts(first_byte=LOCAL_FIRST_BYTE) if local else Timeouts()),
        retry=retry,
        transport=transport,
        fast=fast,
    )


def find_provider(name: str) -> tuple[Provider, str]:
    """Return the row and the model that a full name means.

    Raises:
        ConfigurationError: it is not `provider:model`, or the provider is unknown.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"a model's name is text such as openai:gpt-5.4, got {quote(name)}")
    before, colon, model = name.partition(":")
    if not colon or not model.strip() or not model.isprintable():
        raise ConfigurationError(
            f"a model's name is provider:model, such as openai:gpt-5.4; got {quote(name)}"
        )
    provider = PROVIDERS.get(ALIASES.get(before, before))
    if provider is None:
        raise ConfigurationError(f"unknown provider {quote(before)}; known: {', '.join(sorted(PROVIDERS))}")
    return provider, model.strip()


def target_of(provider: Provider, model: str, *, endpoint: str = "") -> Target:
    """Return where requests for a model go. `endpoint`: the base URL where it is not the provider's own."""
    return Target(provider.provider, model, provider.profile_of(model), endpoint)


def _local(
    provider: Provider,
    model: str,
    profile: Profile | None,
    timeouts: Timeouts | None,
    retry: RetryPolicy | None,
) -> StreamingClient:
    from agentkit.local_model import (
        LocalModel,
        find_weights,
    )  # processes and packages: for this provider alone

    weights = find_weights(model)
    target = target_of(provider, weights.name)
    return LocalModel(
        _dialect(provider.dialect),
        target if profile is None else replace(target, profile=profile),
        weights.path,
        timeouts=timeouts or Timeouts(first_byte=LOCAL_FIRST_BYTE),
        retry=retry,
    )


def _dialect(dialect: str | Dialect) -> Dialect:
    if not isinstance(dialect, str):
        return dialect
    found = DIALECTS.get(dialect)
    if found is None:
        raise ConfigurationError(f"unknown dialect {quote(dialect)}; known: {', '.join(sorted(DIALECTS))}")
    return found


def _base_url(provider: Provider, dialect: Dialect, given: str | None) -> tuple[str, bool]:
    """Return the base URL, and whether it is the provider's own."""
    if given is None and provider.url_variable:
        given = os.environ.get(provider.url_variable) or None
    if given is None:
        if not provider.base_url:
            hint = f", or set {provider.url_variable}" if provider.url_variable else ""
            raise ConfigurationError(f"{provider.name} has no address of its own: pass base_url={hint}")
        return provider.base_url, True
    url = parse_base_url(given)
    if url == provider.base_url:
        return url, True
    return with_version(url, provider.version or VERSIONS.get(dialect.name, "")), False


def _key(provider: Provider, given: "str | SecretStr | None", *, needed: bool) -> Key | None:
    if given is not None:
        return Key.of(given)
    for variable in provider.key_variables:
        text = os.environ.get(variable)
        if text:
            return Key.of(Key(text, variable))
    if needed:
        variables = " or ".join(provider.key_variables)
        raise ConfigurationError(f"{provider.name} needs a key: set {variables}, or pass key=")
    return None


def anthropic(
    model: str, *, key: "str | SecretStr | None" = None, base_url: str | None = None
) -> StreamingClient:
    """Return a model of Anthropic: `anthropic("claude-sonnet-4-5")`; parameters and errors as `connect`."""
    return connect(f"anthropic:{model}", key=key, base_url=base_url)


def google(
    model: str, *, key: "str | SecretStr | None" = None, base_url: str | None = None
) -> StreamingClient:
    """Return a model of Google's Gemini API: `google("gemini-2.5-pro")`; parameters and errors as `connect`."""
    return connect(f"google:{model}", key=key, base_url=base_url)


def openai(
    model: str, *, key: "str | SecretStr | None" = None, base_url: str | None = None
) -> StreamingClient:
    """Return a model of OpenAI on its Responses dialect: `openai("gpt-5.4")`; parameters and errors as `connect`."""
    return connect(f"openai:{model}", key=key, base_url=base_url)
