"""Old names of settings, options and keys of results: each works and warns with the new one; both do not."""

import json
import re
import warnings
from pathlib import Path

import click
import pytest
from structlog.testing import capture_logs

from streamfl.cli.live import _loaded
from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.live.settings.kept_settings import to_keep, wrong
from streamfl.live.settings.loading import load, merge
from streamfl.live.settings.settings import FederationSettings
from streamfl.run.evaluation.result import Privacy
from streamfl.run.renamed import OF_OPTIONS, OPTIONS, RESULT, SETTINGS, VALUES, arguments_now

FILE = '[records]\ntopics = ["r.*"]\n[kafka]\nbootstrap_servers = "b:9092"\n'
GIVEN = {"federation.expect": 7, "rounds.least": 3, "privacy.sums": "masked", "privacy.fewest": 5}
CASES = [
    *[(old, GIVEN[old], new, GIVEN[old]) for old, new in SETTINGS.items()],
    *[(name, old, name, new) for name, values in VALUES.items() for old, new in values.items()],
]


def nested(name: str, value: object) -> dict[str, dict[str, object]]:
    table, _, setting = name.partition(".")
    return {table: {setting: value}}


def value(settings: FederationSettings, name: str) -> object:
    table, _, setting = name.partition(".")
    return getattr(getattr(settings, table), setting)


@pytest.fixture(params=["file", "environment", "flag"])
def loaded(request, tmp_path: Path, monkeypatch):
    """Load a setting that comes from a file, the environment or a flag."""

    def load_it(*given: tuple[str, object]) -> FederationSettings:
        path, flags = tmp_path / "f.toml", [nested(name, value) for name, value in given]
        text = FILE
        for table, settings in merge(flags).items() if request.param == "file" else ():
            text += f"[{table}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        path.write_text(text)
        for name, value in given if request.param == "environment" else ():
            monkeypatch.setenv("STREAMFL_" + name.upper().replace(".", "__"), str(value))
        return load(path, merge(flags) if request.param == "flag" else {})

    return load_it


@pytest.mark.parametrize(("old", "given", "new", "taken"), CASES, ids=[f"{old}={given}" for old, given, *_ in CASES])
def test_an_old_setting_does_what_the_new_one_does_and_warns_with_its_name(loaded, old, given, new, taken) -> None:
    with pytest.warns(FutureWarning, match=re.escape(f"write {new}")):
        assert value(loaded((old, given)), new) == taken


@pytest.mark.parametrize(("old", "new"), SETTINGS.items())
def test_a_setting_under_both_names_is_refused(loaded, old, new) -> None:
    with pytest.raises(UsageError, match=f"{old} is the old name of {new}, and both are given; leave {old} out"):
        loaded((old, GIVEN[old]), (new, GIVEN[old]))


def commands_with(option: str) -> list[click.Command]:
    return [c for c in cli.commands.values() if any(option in parameter.opts for parameter in c.params)]


@pytest.mark.parametrize(("old", "new"), OPTIONS.items())
@pytest.mark.parametrize("joint", ["=", " "])
def test_an_old_option_does_what_the_new_one_does_and_warns_with_its_name(old, new, joint) -> None:
    value = {"--secure-aggregation": "masked", "--missing-columns": "mean"}.get(new, "3")
    for command in commands_with(new):
        words = [
            *f"{old}{joint}{value}".split(),
            *(["--settings", "f"] if command.name == "produce" else []),
            *(["--model", "m"] if command.name == "predict" else []),
            "a.csv",
        ]
        with pytest.warns(FutureWarning, match=f"{old} is the old name of {new}; write {new}"):
            context = command.make_context("it", words)
        assert str(context.params[new.removeprefix("--").replace("-", "_")]) == value
        with pytest.raises(UsageError, match=f"{old} is the old name of {new}, and both are given"):
            command.make_context("it", [*words, new, value])
    assert commands_with(new) and not commands_with(old)


@pytest.mark.parametrize(("option", "values"), OF_OPTIONS.items())
@pytest.mark.parametrize("joint", ["=", " "])
def test_an_old_value_of_an_option_is_taken_and_warned_of(option, values, joint) -> None:
    for old, new in values.items():
        with pytest.warns(FutureWarning, match=f"{option} {old} is the old name of {option} {new}"):
            assert (
                arguments_now(f"a.csv {option}{joint}{old}".split(), [option])
                == f"a.csv {option}{joint}{new}".split()
            )


def test_a_process_logs_an_old_setting(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("streamfl.live.metrics.logs.configure", lambda *_, **__: None)
    path = tmp_path / "f.toml"
    path.write_text(FILE + "[rounds]\nleast = 3\n")
    with capture_logs() as logged:
        assert _loaded(path, ()).rounds.min_records == 3
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("setting renamed", "warning")
    assert "rounds.least is the old name of rounds.min_records; write rounds.min_records" in line["remedy"]


def test_a_state_of_the_old_names_is_of_the_same_settings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        now = to_keep(FederationSettings.model_validate({"records": {"topics": ["r.*"]}}))
    old = {new: old for old, new in SETTINGS.items()}
    back = {
        name: {json.dumps(new): json.dumps(old) for old, new in values.items()} for name, values in VALUES.items()
    }
    before = {old.get(name, name): back.get(name, {}).get(text, text) for name, text in now.items()}
    assert before != now
    assert wrong(before, now) is None
    assert wrong(before | {"privacy.sums": '"masked"'}, now).startswith('privacy.secure_aggregation was "masked"')


def test_a_result_with_the_old_keys_is_read() -> None:
    plain = {"secure_aggregation": "masked", "min_clients_per_sum": 3}
    before = {old: plain[new] for old, new in RESULT.items()}
    assert Privacy.model_validate(before) == Privacy.model_validate(plain)
