"""Sections as one self-contained HTML page, which draws them by the same script as the live page."""

import base64
import hashlib
import html
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec

from streamfl.printable import printable

_STYLES, _SCRIPTS = ("uplot.css", "page.css"), ("uplot.js", "page.js")


def document(sections: dict[str, Any], story: Sequence[str]) -> str:
    """Return a page that needs no server, no network and no other file.

    Its policy lets only our own scripts run, whatever its texts hold.

    Parameters
    ----------
    sections
        What the script draws.
    story
        Sentences for browsers without scripts.
    """
    styles, scripts = (["\n" + static(name) + "\n" for name in names] for names in (_STYLES, _SCRIPTS))
    data = msgspec.json.encode(_printable(sections)).decode().replace("<", "\\u003c")
    page = static("page.html")
    for name in (*_STYLES, *_SCRIPTS):
        page = page.replace(f'<link rel="stylesheet" href="{name}">\n', "").replace(
            f'<script src="{name}" defer></script>\n', ""
        )
    ours = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts)
    sources = f"default-src 'none'; style-src 'unsafe-inline'; script-src {ours}; img-src data:"
    policy = f"{sources}; base-uri 'none'; form-action 'none'"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n' + "".join(
        f"<style>{one}</style>\n" for one in styles
    )
    lines = "".join(f"<li>{html.escape(printable(one))}</li>\n" for one in story)
    end = f'<script type="application/json" id="data">{data}</script>\n' + "".join(
        f"<script>{one}</script>\n" for one in scripts
    )
    before, _, rest = page.partition("<noscript>")
    _, _, after = rest.partition("</noscript>")
    return f"{before}<noscript><ul>\n{lines}</ul></noscript>{after}".replace("</head>", f"{head}</head>", 1).replace(
        "</body>", f"{end}</body>", 1
    )


def static(name: str) -> str:
    """Return a file of the page."""
    return files("streamfl.run.page").joinpath("static", name).read_text(encoding="utf-8")


def _printable(value: Any) -> Any:
    """Return plain data in which every text is printable."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {name: _printable(one) for name, one in value.items()}
        case list() | tuple():
            return [_printable(one) for one in value]
    return value
