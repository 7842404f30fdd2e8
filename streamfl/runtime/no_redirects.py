"""HTTP requests of ours: a redirection is an answer, and is not followed."""

import urllib.request
from typing import Any


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing: a request would lose its body, or its log-in would go to a stranger."""


open_directly = urllib.request.build_opener(_NoRedirect).open
