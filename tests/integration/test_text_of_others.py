"""Names that are escape sequences, line ends and marks of direction: no output passes them on to a screen."""

import csv
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
from rich.console import Console

import streamfl
from streamfl.cli.main import main
from streamfl.errors import PeerError
from streamfl.learning.profiles.experts import Experts
from streamfl.live.metrics.logs import configure
from streamfl.live.operator import check, members
from streamfl.live.operator.watch import reader, watch
from streamfl.live.page.history import PageHistory
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.printable import printable
from streamfl.protocol.messages import (
    Accepted,
    FeatureMoved,
    FeatureStuck,
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    Restarted,
    RoundClosed,
    Served,
)
from streamfl.run.page.sections import sections
from streamfl.runtime.ports import CheckResult

RED, LINE, TURNED = "\x1b[31mred\x1b[2J\x1b]0;pwn\x07", 'line\nbreak\r{"event": "forged"}', "\u202egnp.exe\u2066"
EVIL = (RED, LINE, TURNED, "\x9b31m", "a\u2028b", "c\u200bd")

# Text of honest people, and how it is shown.
HONEST = {
    "10\xa0kg": "10 kg",
    "東京\u3000駅": "東京 駅",
    "می\u200cخواهم": "می\u200cخواهم",
    "क्\u200dष": "क्\u200dष",
}


def screen(text: str) -> list[str]:
    """Return the lines of an output, each of which a screen shows as it is."""
    lines = text.split("\n")
    for line in lines:
        assert line.isprintable(), ascii(line)
    return lines


def told() -> Iterator[FromCoordinator]:
    """Yield messages in which every text is of others."""
    for name in EVIL:
        found: dict[str, Any] = {"round": 1, "epoch": 1, "since": 1, "labels": (name,), "positions": {name: (1, 2)}}
        evidence: dict[str, Any] = {"statistic": 9.0, "threshold": 1.0}
        yield Joined(client=name, nonce=name, incarnation=1, entry=1, positions={}, read=0)
        yield Refusal(client=name, incarnation=1, entry=1, reason=name)
        yield Refusal(client=name, incarnation=1, entry=1, reason=name, evicted=True)
        yield MemberChanged(action="evict", client=name, number=1, entry=1, by=name)
        yield Restarted(**found, **evidence, cause=name, chosen=name, clients=(name,), scores={name: 0.5})
        yield LocalDrift(**found, **evidence, clients=(name,), state="latched", chosen=name, gains={name: 0.5})
        yield LocalDrift(**found, clients=(name,), state="corrected", drift=1, statistic=0.0, threshold=0.0)
        heat = FeatureMoved(name, 1.0, 2.0, (name,), 1)
        yield InputsMoved(**found, **evidence, moved=(heat,), clients=(name,))
        yield InputsStuck(**found, **evidence, stuck=(FeatureStuck(name, name, 1.0),), clients=(name,))
        yield Noticed(**found, **evidence, cause=name)
        yield Left(client=name, nonce=name)


def entry() -> RoundClosed:
    """Return an entry whose texts are of others."""
    accepted = tuple(Accepted(client=name, attempt="1", spans=(), records=5, rejected=0) for name in EVIL)
    return RoundClosed(
        entry=1, round=1, epoch=1, block=1, accepted=accepted, records=30, trained=30, rejected=0,
        losses={RED: 0.5}, serves=RED, readings={}, served=Served(), model="", registry=1,
    )  # fmt: skip


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=500)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("text", "shown"), HONEST.items())
def test_ordinary_text_is_not_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["\u200ca", "a\u200d", "a\u200c\u200cb", "1\u200d2", "a \u200db", "\u200e", "\u2029"]
)
def test_what_joins_no_letters_is_escaped(text: str) -> None:
    screen(printable(text))


def test_watch_shows_a_line_for_each_thing_whatever_its_names_are(console: Console) -> None:
    watch([*told(), entry()], console, rounds=1)
    lines = screen(printed(console))
    assert len(lines) == len(EVIL) * (11 + 2) + 1 + 1  # a restart and a drift have a sentence each
    assert "forged" in "".join(lines)


def test_watch_shows_why_there_is_no_federation_yet(console: Console) -> None:
    opened = iter([PeerError(RED), PeerError(LINE)])

    def fails() -> Any:
        raise next(opened, SystemExit)

    with pytest.raises(SystemExit):
        reader(fails, console, sleep=lambda seconds: None)
    assert len(screen(printed(console))) == 3


def test_the_list_of_members_has_a_line_for_each_whatever_its_name_is(console: Console) -> None:
    member = Member(1, RED, positions={LINE: 4}, accepted=3, rejected=0)
    state = CoordinatorState(
        Experts(), members=dict.fromkeys(EVIL, member), keys=dict.fromkeys(EVIL, "k"), barred=(LINE,)
    )
    members.show(state, {"k": RED}, console)
    assert len(screen(printed(console))) == len(EVIL) + 1


def test_findings_of_check_have_a_line_and_a_remedy_each(console: Console) -> None:
    check.show([CheckResult(name, "error", name, name) for name in EVIL], console)
    assert len(screen(printed(console))) == 2 * len(EVIL) + 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_name_makes_a_line_of_a_log(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.root.handlers[:]
    configure("info", form)
    log = structlog.get_logger("streamfl")
    for name in EVIL:
        log.info(name, client=name, clients=[name], reason=name)
        logging.getLogger("kafka").warning("%s", name)
    log.error(RED, exc_info=PeerError(LINE.partition("\n")[2]))
    logging.root.handlers[:] = before
    structlog.reset_defaults()
    lines = screen(re.sub(r"\x1b\[\d*m", "", capsys.readouterr().err))
    assert sum("forged" in line for line in lines) >= 2
    assert not any(line.startswith("{") for line in lines) or form == "json"
    assert all(line.startswith("{") for line in lines if line) or form == "text"


def test_every_text_of_the_page_can_be_shown() -> None:
    history = PageHistory()
    for message in (*told(), entry(), *told()):
        history.hear(message, 1000)
    screen(json.dumps(sections(history.now), ensure_ascii=False))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write records of clients, labels and features with such names, whose labels are swapped midway."""
    path, rng = tmp_path_factory.mktemp("evil") / "records.csv", np.random.default_rng(1)
    with path.open("w", newline="", encoding="utf-8") as file:
        written = csv.writer(file)
        written.writerow(["site", f"f{RED}", f"g{TURNED}", "label"])
        for i in range(2400):
            x = rng.normal()
            label = (RED, TURNED)[(x > 0) ^ (i >= 1200)]
            written.writerow([EVIL[i % 3], x if i != 700 else RED, rng.normal(), label])
    return path


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    """Return what a command prints for people."""
    monkeypatch.setattr(sys, "argv", ["streamfl", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        assert ended.code in (0, 1, 2)
    told = capsys.readouterr()
    return told.out + told.err


def test_a_replay_its_report_its_explanation_and_its_predictions_can_be_shown(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report, result, model = tmp_path / "r.html", tmp_path / "r.json", tmp_path / "m.safetensors"
    streamfl: Callable[..., str] = lambda *arguments: run(capsys, monkeypatch, *arguments)  # noqa: E731
    outputs = ("--report", report, "--json", result, "--model-out", model, "--per-round")
    rounds = ("--round-size", 25, "--features", "rounds")
    lines = screen(streamfl("replay", records, "--label", "label", "--split", "column:site", *rounds, *outputs))
    assert any("restart" in line for line in lines)
    screen(streamfl("explain", result))
    screen(streamfl("explain", result, 17))
    predicted = ("predict", records, "--model", model, "--label", "label")
    screen(streamfl(*predicted, "--csv", tmp_path / "p.csv"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen(streamfl("predict", records, "--model", model))
    screen(streamfl("predict", records, "--model", model, "--json", "-"))
    screen(streamfl("replay", records, "--label", "labels"))
    screen(streamfl("init", records, "--label", "label", "--out", tmp_path / "f.toml"))
    screen((tmp_path / "f.toml").read_text(encoding="utf-8"))
    page = report.read_text(encoding="utf-8")
    screen(page)
    assert "u202egnp.exe" in page


def test_only_one_file_prints_for_people() -> None:
    """What is not printed there would have to remember to be printable."""
    home = Path(streamfl.__file__).parent
    prints = re.compile(r"(click\.s?echo|console\.print|[^\w.>]print|std(out|err)\.write)\(")
    found = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if prints.search(line) and ">>>" not in line and "    ... " not in line
    }
    assert found == {"run/report/terminal.py", "__main__.py", "learning/profiles/paper/profile.py"}
