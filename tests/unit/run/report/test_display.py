import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from streamfl.run.evaluation.result import BytesBudget, DatedRestart, Figures, Kappa, Result
from streamfl.run.report.display import Progress, restart_text, summary
from streamfl.run.summary import RoundLine

Build = Callable[..., Result]


class Ticks:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def plain() -> tuple[Console, io.StringIO, Ticks]:
    out, clock = io.StringIO(), Ticks()
    return Console(file=out, force_terminal=False, width=80, get_time=clock), out, clock


def line(t: int, **changed: float | None) -> RoundLine:
    told = {"loss": 0.25, "accuracy": 0.5, "no_change": 0.375} | changed
    return RoundLine(round=t, epoch=1 + (t > 2), block=t, records=100, **told)


def test_a_log_gets_exact_plain_lines(restart: Callable[..., DatedRestart]) -> None:
    console, out, clock = plain()
    with Progress(console, 12, "replay of [bold]x") as progress:
        for t in range(1, 13):
            clock.now += 0.5
            if t == 2:
                progress.drift(t, "class-swap")
            progress.round(line(t))
            if t == 2:
                progress.restart(restart(2, 2))
    assert out.getvalue().splitlines() == [
        "replay of [bold]x",
        "round 2  drift imposed: class-swap",
        "round  2/12  epoch 1  loss 0.250  accuracy 0.500  NoChange 0.375  200 records/s",
        "round 2  drift since round 1, certain at 2 clients, labels 0, 1: glr drift score 114 (alarm at 11.7);"
        " epoch 2 begins with an untrained model (scratch)",
        "round  4/12  epoch 2  loss 0.250  accuracy 0.500  NoChange 0.375  200 records/s",
        "round  6/12  epoch 2  loss 0.250  accuracy 0.500  NoChange 0.375  200 records/s",
        "round  8/12  epoch 2  loss 0.250  accuracy 0.500  NoChange 0.375  200 records/s",
        "round 10/12  epoch 2  loss 0.250  accuracy 0.500  NoChange 0.375  200 records/s",
        "round 12/12  epoch 2  loss 0.250  accuracy 0.500  NoChange 0.375  200 records/s",
    ]


def test_a_restart_says_whether_online_models_begin_again(restart: Callable[..., DatedRestart]) -> None:
    one = restart(2, 2).model_copy(update={"online_models_begin_again": True})
    assert restart_text(one) == restart_text(restart(2, 2)) + "; online models begin again"


def test_a_round_of_few_records_says_so() -> None:
    console, out, _ = plain()
    with Progress(console, 2, "replay") as progress:
        progress.round(line(1))
        progress.round(replace(line(2), records=3, accuracy=1.0))
    assert out.getvalue().splitlines()[1:] == [
        "round 1/2  epoch 1  loss 0.250  accuracy 0.500  NoChange 0.375  - records/s",
        "round 2/2  epoch 1  loss 0.250  accuracy 1.000  NoChange 0.375  - records/s  (only 3 records)",
    ]


def test_what_comes_before_learning_begins_is_no_part_of_the_rate() -> None:
    console, out, clock = plain()
    with Progress(console, 1, "replay") as progress:
        clock.now = 60.0  # a minute of compiling
        progress.begin()
        clock.now = 62.0
        progress.round(line(1))
    assert out.getvalue().splitlines()[-1].endswith("  50 records/s")


def test_a_run_of_unknown_length_is_told_ever_more_rarely() -> None:
    console, out, _ = plain()
    with Progress(console, None, "watch") as progress:
        for t in range(1, 206):
            progress.round(line(t))
    told = [int(text.split()[1]) for text in out.getvalue().splitlines()[1:]]
    assert told == [*range(1, 10), *range(10, 100, 10), 100, 200, 205]


def test_a_run_that_fails_still_tells_its_last_round() -> None:
    console, out, _ = plain()
    with pytest.raises(ValueError, match="broken"), Progress(console, 100, "replay") as progress:
        progress.round(line(1))
        raise ValueError("broken")
    assert out.getvalue().splitlines()[-1].startswith("round   1/100  epoch 1")


def test_a_terminal_gets_a_live_line_and_permanent_ones(restart: Callable[..., DatedRestart]) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, force_interactive=True, width=120, color_system=None)
    with Progress(console, 10, "replay") as progress:
        progress.round(line(1))
        progress.restart(restart(1, 2))
        progress.round(line(2))
    assert "\x1b[2K" in out.getvalue()
    assert (
        "round 1  drift since round 0, certain at 2 clients, labels 0, 1: glr drift score 114 (alarm at 11.7);"
        " epoch 2 begins with an untrained model (scratch)\n" in out.getvalue()
    )
    assert "round  2/10" in out.getvalue()


def test_the_live_line_fits_eighty_columns() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, get_time=lambda: 0.0)
    progress = Progress(console, 10_000, "replay")
    progress.round(line(9_999))
    shown = io.StringIO()
    Console(file=shown, width=80).print(progress)
    assert shown.getvalue().rstrip().endswith("records/s")
    assert "NoChange" not in shown.getvalue()


def test_a_new_label_comes_without_numbers(restart: Callable[..., DatedRestart]) -> None:
    console, out, _ = plain()
    Progress(console, 10, "replay").restart(restart(7, 3, cause="new-label", statistic=0.0, threshold=0.0))
    assert (
        out.getvalue() == "round 7  restart since round 6, certain at 2 clients, labels 0, 1: a new label;"
        " epoch 3 begins with an untrained model (scratch)\n"
    )


def test_the_summary_is_exact(made_up: Build) -> None:
    console, out, _ = plain()
    summary(console, made_up(at=[32, 98]), ["line 3: no label", "line 9: \x1b[2Jinfinity"])
    assert out.getvalue().splitlines() == [
        "           prequential  round_start  post_update  NoChange",
        "accuracy   0.702        0.693        0.714        0.381",
        "kappa      Cohen 0.512, temporal 0.519",
        "loss       0.213",
        "drifts     2 at all clients (rounds 32, 98)",
        "restarts   2: round 32 (glr, scratch), round 98 (glr, scratch)",
        "records    read 92,962 = accepted 92,960 + rejected 2 + pending 0",
        "           rejected: line 3: no label",
        "           rejected: line 9: \\x1b[2Jinfinity",
        "rounds     103",
        "clients    12",
        "time       3.1 s, 29,988 records/s",
        "model      sha256 " + "9f2c" * 16,
    ]


@pytest.mark.parametrize(
    ("coarser", "exceeded", "told"),
    [
        (0, 0, "kept; no update made coarser"),
        (1, 0, "kept; 1 update made coarser"),
        (1300, 1, "exceeded 1 time; 1,300 updates made coarser"),
        (1300, 1200, "exceeded 1,200 times; 1,300 updates made coarser"),
    ],
)
def test_a_budget_of_bytes_is_told_with_how_it_was_kept(
    made_up: Build, coarser: int, exceeded: int, told: str
) -> None:
    console, out, _ = plain()
    summary(console, made_up(budget=BytesBudget(a_record=62.5, coarser=coarser, exceeded=exceeded)), [])
    assert f"budget     62.5 bytes per record of an update: {told}\n" in out.getvalue()


def test_five_rejections_are_listed_and_the_others_counted(made_up: Build) -> None:
    console, out, _ = plain()
    summary(console, made_up(rejected=1204, accepted=91758), [f"line {i}: bad" for i in range(9)])
    assert out.getvalue().count("rejected: line") == 5
    assert "           ... and 1,199 more\n" in out.getvalue()


def test_the_summary_says_what_labels_were_chosen_for_unless_it_is_accuracy(made_up: Build) -> None:
    for objective, told in ((None, False), ("cost", True)):
        console, out, _ = plain()
        summary(console, made_up(objective=objective), [])
        assert ("objective  cost\n" in out.getvalue()) is told


def test_the_display_names_the_column_that_is_learnt(made_up: Build) -> None:
    console, out, _ = plain()
    summary(console, made_up(label="state"), [])
    assert 'label      column "state"\n' in out.getvalue()


def test_the_summary_of_a_regression_has_errors_and_of_nothing_dashes(made_up: Build) -> None:
    console, out, _ = plain()
    error = Figures(prequential=8.125, round_start=None, post_update=7.5, no_change=19.2)
    summary(console, made_up(accuracy=None, kappa=Kappa(cohen=None, temporal=None), mae=error, rejected=3))
    assert "MAE        8.125        -            7.5          19.2\n" in out.getvalue()
    assert "kappa      Cohen -, temporal -\n" in out.getvalue()
    assert "restarts   none\n" in out.getvalue()
    assert "read 92,962 is not accepted 92,960 + rejected 3 + pending 0 (off by -1)" in out.getvalue()


def test_what_was_answered_and_that_figures_look_ahead_is_told(made_up: Build) -> None:
    def told(**fields: int) -> str:
        console, out, _ = plain()
        summary(console, made_up(accepted=92_950, pending=12, rejected=0, **fields), [])
        return " ".join(out.getvalue().split())

    assert "ahead" not in told(answered=12, ahead=0)
    assert "12 of them predicted where they are" in told(answered=12, ahead=0)
    assert "models had learnt up to 3,451 later records of other clients" in told(ahead=3451)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, restart: Callable[..., DatedRestart]) -> None:
    def shown() -> str:
        out = io.StringIO()
        Progress(Console(file=out, force_terminal=True), 10, "r").restart(restart(2, 2))
        return out.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33m" in shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in shown()


def test_the_summary_tells_labels_that_come_late(made_up: Build) -> None:
    console, out, _ = plain()
    summary(console, made_up(label_delay=1000, unanswered=4200, waiting=2, expired=1))
    told = "labels     1,000 records late: 4,200 answered before any model, 2 still waiting, 1 expired"
    assert told in out.getvalue().splitlines()
    console, out, _ = plain()
    summary(console, made_up())
    assert "labels" not in out.getvalue()
