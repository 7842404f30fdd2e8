"""Log-ins by token: which class of another package gives the tokens of OAUTHBEARER."""

from importlib.util import find_spec

from kafka.net.sasl.oauth import AbstractTokenProvider

from streamfl.errors import UsageError
from streamfl.protocol.registered import Registered

OAUTH, MSK = "OAUTHBEARER", "AWS_MSK_IAM"

# Each is a class that is made without arguments, and whose method `token` returns a token that has not expired.
TOKEN_PROVIDERS = Registered[type[AbstractTokenProvider]](
    "token provider", AbstractTokenProvider, "streamfl.kafka_token_providers", {}
)


def provider_of(name: str, section: str) -> AbstractTokenProvider:
    """Return a provider of tokens by its name, which a section of the settings file has.

    Raises
    ------
    UsageError
        No installed package registers one of this name, or it cannot be made.
    """
    kind = TOKEN_PROVIDERS.find(name)
    try:
        return kind()
    except Exception as error:  # another package's code may raise anything
        raise UsageError(f"[{section}] sasl_oauth_token_provider: {name!r} cannot be made: {error!r}") from error


def require_botocore(section: str) -> None:
    """Check that AWS_MSK_IAM can find its credentials.

    Raises
    ------
    UsageError
        The package that does so is not installed.
    """
    if find_spec("botocore") is None:
        raise UsageError(f"[{section}] sasl_mechanism: {MSK} needs the package botocore; install it")
