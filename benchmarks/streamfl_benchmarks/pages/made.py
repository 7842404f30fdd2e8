"""What the templates make of the runs."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from streamfl.errors import UsageError
from streamfl_benchmarks import run_file
from streamfl_benchmarks.comparison import settings
from streamfl_benchmarks.figure import figure
from streamfl_benchmarks.pages import (
    detector_cells,
    drift_cells,
    federation_cells,
    growth_cells,
    plant_cells,
    regret_cells,
    river_cells,
)
from streamfl_benchmarks.pages.growth_picture import growth_lines
from streamfl_benchmarks.pages.million import million
from streamfl_benchmarks.pages.rows import Rows, seed_counts
from streamfl_benchmarks.paper import table
from streamfl_benchmarks.results import kept_losses
from streamfl_benchmarks.run import Run

# A macro that makes a row may leave an empty line after it, which would end the table.
BETWEEN_ROWS = re.compile(r"\|[ \t]*\n\s*\n\s*\|")
TEMPLATES = Path(__file__).parent / "templates"
ENDING = ".json.gz"

# What templates may call besides `runs` and the methods of `Rows`.
CELLS = {
    "seed_counts": seed_counts,
    "found": drift_cells.found,
    "delay": drift_cells.delay,
    "within": drift_cells.within,
    "quiet_at_least": drift_cells.quiet_at_least,
    "temporal_kappa": drift_cells.temporal_kappa,
    "slope": regret_cells.slope,
    "paper_table": lambda rows: table(map(Run.model_validate, rows.runs)),
    "federations": federation_cells.federations,
    "counts": federation_cells.counts,
    "plants": plant_cells.plants,
    "plant_answers": plant_cells.plant_answers,
    "growths": growth_cells.growths,
    "million": million,
    "growth_lines": growth_lines,
    "river_streams": river_cells.river_streams,
    "trials": detector_cells.trials,
    "published_detectors": detector_cells.PUBLISHED,
}


@dataclass
class Made:
    """The tables, paragraphs and pictures of templates; each file of runs is read once.

    Parameters
    ----------
    runs
        The folder of the files of runs.
    templates
        The folder of templates.
    """

    runs: Path
    templates: Path = TEMPLATES
    read: dict[str, Rows] = field(default_factory=dict)

    def names(self, ending: str) -> list[str]:
        """Return the names of the templates that make Markdown (`.md.j2`) or pictures (`.svg.j2`)."""
        return sorted(path.name.removesuffix(ending) for path in self.templates.glob(f"*{ending}"))

    def text(self, name: str, ending: str = ".md.j2") -> str:
        """Return what a template makes, without the empty lines around it.

        Raises
        ------
        UsageError
            If there is no such template, or the runs have not what it asks for.
        """
        if name not in self.names(ending):
            known = ", ".join(self.names(ending)) or "none"
            raise UsageError(
                f"results {name}: no template {name}{ending} in {self.templates.name}/; there are: {known}"
            )
        environment = Environment(
            loader=FileSystemLoader(self.templates),
            undefined=StrictUndefined,
            autoescape=False,  # it makes Markdown, and every figure is ours
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals.update(CELLS, runs=self.rows, has_runs=self.has, figure=self.figure)
        try:
            return BETWEEN_ROWS.sub("|\n|", environment.get_template(f"{name}{ending}").render().strip())
        except (TemplateError, UsageError, TypeError, ValueError, ArithmeticError) as error:
            raise UsageError(f"results {name}: {error}") from error

    def has(self, name: str) -> bool:
        """Tell whether there is a file of runs: a template may say that something was not measured yet."""
        return (self.runs / f"{name}{ENDING}").exists()

    def figure(self, rows: Rows) -> str:
        """Return the picture of the losses of some runs, those of which the losses are kept."""
        losses = kept_losses(self.runs / f"{rows.name}{ENDING}")
        shown = [run for run in map(Run.model_validate, rows.runs) if run.key in losses]
        return figure(settings(shown), losses)

    def rows(self, name: str) -> Rows:
        """Return the runs of a file, for a template.

        Raises
        ------
        UsageError
            If there is no such file.
        """
        if name not in self.read:
            self.read[name] = Rows.of(name, [kept.run for kept in run_file.read(self.runs / f"{name}{ENDING}")])
        return self.read[name]
