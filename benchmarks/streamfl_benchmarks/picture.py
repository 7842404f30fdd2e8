"""The README's picture: the accuracy of a run over rounds, with its drifts and restarts, as an SVG of its own.

python -m streamfl_benchmarks.picture docs/demo.svg
"""

import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from streamfl.cli.main import cli

# Around the chart: a title, and what the lines mean.
MARGIN, TITLE = 44, "Accuracy, each record predicted before it is learnt; classes are swapped in rounds 30, 55 and 80"
KEYS = (
    ("model", "the federation"),
    ("naive", "NoChange: repeats the last label"),
    ("restart", "restart"),
    ("drift", "drift"),
)

# A chart of the report for wide screens: its width, its height, and what is drawn.
CHART = re.compile(r'<svg class="plot wide"[^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*?)</svg>', re.DOTALL)


def picture(report: str) -> str:
    """Return the last chart of a report, the accuracy, as an SVG that needs no other file.

    Parameters
    ----------
    report
        The HTML page.

    Examples
    --------
    >>> page = '<svg class="plot wide" viewBox="0 0 800 300" role="img"><path class="model" d="M0 0"/></svg>'
    >>> print(picture(page)[:91])
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 344" role="img" font-family="sans-
    """
    charts = CHART.findall(report)
    if not charts:
        raise ValueError("the report has no chart")
    width, height, inside = float(charts[-1][0]), float(charts[-1][1]), charts[-1][2]
    size = f'viewBox="0 0 {width:g} {height + MARGIN:g}" role="img" font-family="sans-serif" font-size="11"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<title>{TITLE}</title><style>{_style()}</style>",
            f'<rect width="{width:g}" height="{height + MARGIN:g}" fill="#ffffff"/>',
            f'<text x="2" y="14" style="font-size: 13px; fill: #18212c; font-weight: 600">{TITLE}</text>',
            *_keys(),
            f'<g class="plot" transform="translate(0 {MARGIN})">{inside.strip()}</g></svg>\n',
        ]
    )


def _keys() -> list[str]:
    """Return what the lines mean, side by side below the title."""
    keys, x = [], 2.0
    for name, meaning in KEYS:
        text = f'<text x="{x + 28:g}" y="33" fill="#57636f">{meaning}</text>'
        keys.append(f'<path class="{name}" d="M{x:g} 29h22"/>{text}')
        x += 52 + 6.2 * len(meaning)
    return keys


def _style() -> str:
    """Return the report's own styles of a chart, its colours for a light page put in."""
    css = files("streamfl.run.report").joinpath("report.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]+)", css.split("@media")[0]))
    inside = re.search(r"\.plot text.*?(?=\.cross)", css, re.DOTALL)
    if inside is None:
        raise ValueError("the report's styles have no chart")
    style = re.sub(r"var\(--([a-z]+)\)", lambda name: colours[name.group(1)], inside.group())
    return re.sub(r"\s+", " ", style).strip()


def main(path: str) -> None:
    """Run the demo, and write its picture."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        cli(["demo", "--report", str(report)], standalone_mode=False)
        Path(path).write_text(picture(report.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
