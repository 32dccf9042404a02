"""Authentication from the environment: `AGENTKIT_API_KEYS`, `AGENTKIT_API_KEYS_FILE`, `AGENTKIT_JWT_…`. Nothing set: nobody is asked."""

from pathlib import Path

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from agentkit.errors import ConfigurationError
from agentkit_server.auth import AnyOf, Auth, NoAuth
from agentkit_server.auth_keys import APIKeyFile, APIKeys, parse_keys
from agentkit_server.settings import fault_of


class AuthSettings(BaseSettings):
    """What an operator may set to have people asked who they are."""

    model_config = SettingsConfigDict(
        env_prefix="AGENTKIT_",
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    api_keys: SecretStr = SecretStr("")
    """Lines of `auth_keys.parse_keys`, with `;` or line ends between: hashes, never keys."""
    api_keys_file: Path | None = None
    """A file of such lines; it is read again when it changes."""
    jwt_algorithms: tuple[str, ...] = ()
    """Those that are allowed, as JSON: `["RS256"]`. Tokens are read only where this is set."""
    jwt_key: SecretStr = SecretStr("")
    """The shared secret, or the public key as PEM text."""
    jwt_key_file: Path | None = None
    """A file that holds it instead."""
    jwt_jwks_url: str = ""
    """Instead of a key: where the issuer's public keys are."""
    jwt_audience: str = ""
    """What `aud` has to name."""
    jwt_issuer: str = ""
    """What `iss` has to be."""
    jwt_leeway: float = 30.0
    """Seconds that clocks may differ."""
    jwt_owner_claim: str = "sub"
    """The claim that says whose threads: a person's, or a tenant's."""
    jwt_rights_claim: str = "rights"
    jwt_agents_claim: str = "agents"


def auth_from_environment() -> Auth:
    """Return what the environment asks for, `NoAuth` where it says nothing.

    Raises:
        ConfigurationError: what it says is impossible. Half of a setting is an error, not less security.
    """
    try:
        settings = AuthSettings()
    except (ValidationError, SettingsError) as error:
        raise ConfigurationError(fault_of(error)) from None
    ways: list[Auth] = []
    keys = settings.api_keys.get_secret_value()
    if keys.strip():
        ways.append(APIKeys(parse_keys(keys, "AGENTKIT_API_KEYS")))
    if settings.api_keys_file is not None:
        ways.append(APIKeyFile(settings.api_keys_file))
    if settings.jwt_algorithms:
        ways.append(_tokens(settings))
    elif any(
        (
            settings.jwt_key.get_secret_value(),
            settings.jwt_key_file,
            settings.jwt_jwks_url,
            settings.jwt_issuer,
        )
    ):
        raise ConfigurationError('tokens need AGENTKIT_JWT_ALGORITHMS, such as ["RS256"]')
    if len(ways) > 1:
        return AnyOf(ways)
    return ways[0] if ways else NoAuth()


def _tokens(settings: AuthSettings) -> Auth:
    from agentkit_server.auth_jwt import JWTAuth  # cryptography: for who has tokens

    key = settings.jwt_key.get_secret_value()
    if settings.jwt_key_file is not None:
        try:
            key = settings.jwt_key_file.read_text().strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(f"cannot read the key in {str(settings.jwt_key_file)!r}") from None
    return JWTAuth(
        algorithms=settings.jwt_algorithms,
        audience=settings.jwt_audience,
        issuer=settings.jwt_issuer,
        key=key,
        jwks_url=settings.jwt_jwks_url,
        leeway=settings.jwt_leeway,
        owner_claim=settings.jwt_owner_claim,
        rights_claim=settings.jwt_rights_claim,
        agents_claim=settings.jwt_agents_claim,
    )
