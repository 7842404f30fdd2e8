"""Reads the data sets and generators of River."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from river import datasets
from river.datasets import base, synth

from streamfl.records.assembly import BLOCK, Assembly
from streamfl.records.objects import Columns, Object, counted, flat, names
from streamfl.records.request import Request, check_names
from streamfl.records.table import Table
from streamfl.records.values.cells import listed

PREFIX = "river:"
ENDLESS = 10_000  # records taken from an endless generator
LABEL = "label"

Labelled = tuple[Object, object]


def read_river(request: Request) -> Table:
    """Read `river:NAME`; NAME is a class of river.datasets, such as Phishing, or of its synth, such as synth.SEA.

    A generator is seeded with 0, and cut after 10,000 records if it is endless. The data set determines the task.

    Raises
    ------
    UsageError
        If there is no such data set, it is not downloaded, or it has several outputs.

    >>> len(read_river(Request("river:Phishing")))
    1250
    """
    name = request.source.removeprefix(PREFIX)
    dataset = _dataset(request, name)
    if request.label is not None:
        raise request.refusal("a River data set has its own label", "leave out --label")
    if request.task == "auto":
        request = replace(request, task="regression" if dataset.task == base.REG else "classification")
    return _read(request, iter(dataset) if dataset.n_samples else islice(iter(dataset), ENDLESS))


def _read(request: Request, records: Iterator[Labelled]) -> Table:
    assembly = Assembly(request, request.source, LABEL, "record")
    columns = Columns(request, LABEL)
    start = 0
    while taken := list(islice(records, BLOCK)):
        flattened = [{**flat(_named(x)), LABEL: y} for x, y in taken]
        if start == 0:
            check_names(request, names(flattened))
        assembly.add(columns.block(*counted(start, len(taken)), flattened))
        start += len(taken)
    return assembly.finish()


def _named(x: Object) -> Object:
    """Name numbered features x0, x1, ...: River's generators call them 0, 1, ..."""
    return {name if isinstance(name, str) else f"x{name}": value for name, value in x.items()}


def _dataset(request: Request, name: str) -> base.Dataset:
    known = _known()
    if name not in known:
        raise request.refusal(f"River has no data set {name!r}", f"use one of {', '.join(known)}")
    kind = known[name]
    seeds = {p: 0 for p in inspect.signature(kind).parameters if p.startswith("seed")}
    dataset = kind(**seeds)
    if dataset.task.startswith("Multi-output"):
        raise request.refusal("it has several labels per record", f"use one of {listed(list(known))}")
    if isinstance(dataset, base.RemoteDataset) and not dataset.is_downloaded:
        command = f"from river import datasets; datasets.{name}().download()"
        raise request.refusal("River has not downloaded it yet", f"run python -c '{command}' first")
    return dataset


def _known() -> dict[str, type[base.Dataset]]:
    """Return every data set by its name."""
    found = {name: getattr(datasets, name) for name in datasets.__all__}
    found |= {f"synth.{name}": getattr(synth, name) for name in synth.__all__}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, base.Dataset)}
