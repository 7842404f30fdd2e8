"""`make results` and `make results-check`."""

import sys
from pathlib import Path

import click

from streamfl.errors import UsageError
from streamfl_benchmarks.code import ROOT
from streamfl_benchmarks.pages.ages import ages
from streamfl_benchmarks.pages.made import Made
from streamfl_benchmarks.pages.site import Site


@click.command()
@click.option("--check", is_flag=True, help="Compare only, and exit with 1 if a page differs from its runs.")
@click.option("--root", type=click.Path(path_type=Path), default=ROOT, help="The repository. Default: this one.")
def main(check: bool, root: Path) -> None:
    """Make what README.md and docs/ show of the runs in benchmarks/runs."""
    runs = root / "benchmarks" / "runs"
    site = Site(root, Made(runs))
    try:
        if not check:
            click.echo("\n".join(site.make()) or "Every page was as its runs are.")
            return
        for line in ages(runs):
            click.echo(line)
        faults = list(site.faults())
    except UsageError as error:
        sys.exit(str(error))
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        sys.exit(f"Differences: {len(faults)}. `make results` makes the pages from their runs again.")
    click.echo("Every page is as its runs are.")


if __name__ == "__main__":
    main()
