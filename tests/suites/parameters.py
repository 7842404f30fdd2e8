"""Parameters of tests by suite: `@pytest.mark.parametrize("point", ["sent", full("read")])`."""

import pytest


def full(*values: object, id: str | None = None) -> object:  # noqa: A002 - pytest calls it so
    """Return parameters with which only `make test-all` runs a test."""
    return pytest.param(*values, marks=pytest.mark.full, id=id)
