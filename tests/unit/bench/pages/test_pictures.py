"""Pictures of the losses of runs."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from streamfl.run.evaluation.result import Figures
from streamfl_benchmarks.pages.made import Made
from streamfl_benchmarks.results import Results
from streamfl_benchmarks.run import Finished, Run


def finished(method: str) -> Finished:
    run = Run(
        stream="covtype",
        drift="class-swap",
        method=method,
        seed=1,
        at=(3,),
        condition="plain",
        clients=2,
        round_size=10,
        rounds=6,
        records=120,
        accuracy=Figures(prequential=0.5, round_start=0.5, post_update=0.5, no_change=0.4),
        loss=0.1,
        restarts=(),
        detections=(None,),
        false_alarms=0,
        seconds=1.0,
    )
    return Finished(run, np.linspace(0.5, 0.1, 6))


def test_a_picture_has_the_methods_whose_losses_are_kept(tmp_path: Path) -> None:
    results = Results(tmp_path / "small.json.gz")
    for method, losses in (("adaptive", True), ("fedprox", True), ("fednova", False)):
        results.add(finished(method), losses=losses)
    (tmp_path / "small.svg.j2").write_text('{{ figure(runs("small")) }}')
    drawn = ElementTree.fromstring(Made(tmp_path, tmp_path).text("small", ".svg.j2"))
    texts = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert texts & {"adaptive", "fedprox", "fednova"} == {"adaptive", "fedprox"}
