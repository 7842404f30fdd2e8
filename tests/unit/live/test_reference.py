"""The reference of settings is made from their models, and what the documents say of settings is of real ones."""

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from streamfl.cli.main import cli
from streamfl.live.settings.kept_settings import KEPT, to_keep
from streamfl.live.settings.reference import reference, settings_of, tables
from streamfl.live.settings.settings import FederationSettings
from streamfl.run.renamed import SETTINGS as RENAMED

ROOT = Path(__file__).parents[3]
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
SETTINGS = {table: settings_of(schema) for table, schema in tables()}
CONNECTORS = {"kafka", "confluent"}
NOTES = {"unit", "unset", "unequal", "decides", "change", "set_by", "registered"}

# Settings that go to kafka-python, which has its own reference.
PASSED_ON = re.compile(r"(security_protocol|ssl_\w+|sasl_\w+)(_file)?")


def test_the_page_of_settings_is_what_the_reference_command_prints():
    page = (ROOT / "docs" / "settings.md").read_text()
    printed = CliRunner().invoke(cli, ["settings"]).output
    assert page == printed, "run: streamfl settings > docs/settings.md"


def test_one_table_can_be_printed_and_another_is_refused_with_the_closest():
    assert CliRunner().invoke(cli, ["settings", "labels"]).output == reference("labels") + "\n"
    assert reference("labels") in reference()
    refused = CliRunner().invoke(cli, ["settings", "label"])
    assert refused.exit_code != 0
    assert "no table [label]; did you mean labels?" in str(refused.exception)


@pytest.mark.parametrize("table", SETTINGS)
def test_every_setting_is_described_in_one_sentence(table):
    assert SETTINGS[table]
    for name, field in SETTINGS[table].items():
        told = field.get("description", "")
        assert re.fullmatch(r"[A-Z`][^\n]*(\n[^\n]+)*\.", told), f"{table}.{name}: {told!r}"
        assert not re.search(r"\. [A-Z]", told), f"{table}.{name}: more than one sentence"


def test_every_setting_of_every_model_is_on_the_page():
    def names(place, model):
        for name, field in model.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from names(f"{place}.{name}" if place else name, inner)
            elif "set_by" not in (field.json_schema_extra or {}):
                yield f"{place}.{field.alias or name}"

    shown = {f"{table}.{name}" for table, fields in SETTINGS.items() for name in fields}
    assert {one for one in shown if one.partition(".")[0] not in CONNECTORS} == set(names("", FederationSettings))


def test_notes_of_the_reference_name_settings_that_exist():
    """A note of another name would be shown nowhere."""
    plain = {"title", "description", "default", "type", "format", "enum", "anyOf", "items", "pattern", "minimum"}
    plain |= {
        "exclusiveMinimum",
        "exclusiveMaximum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "additionalProperties",
    }
    assert {key for fields in SETTINGS.values() for field in fields.values() for key in field} <= plain | NOTES


def _row(table, name):
    (row,) = (line for line in reference(table).splitlines() if line.startswith(f"| `{name}` "))
    return [cell.strip() for cell in row.strip("|").split(" | ")]


@pytest.mark.parametrize(
    ("table", "name", "value", "default", "change", "equal_bytes"),
    [
        ("rounds", "interval", "number, at least 0.001, seconds", "`10.0`", "yes", "other"),
        (
            "rounds",
            "quorum",
            'whole number; or `"all"`, clients',
            '`"all"`',
            "yes",
            "other; not promised with a number",
        ),
        ("labels", "window", "whole number, at least 1, at most 1,000,000, records", "`10000`", "no", "other"),
        ("records", "topics", "list of texts, at least 1 of them", "required", "yes", "other"),
        ("records", "schema", '`"open"` or `"closed"`', '`"open"`', "yes", "other"),
        ("records.fields", "categories", "table of lists of texts", "`{}`", "yes", "other"),
        ("client", "host", "text", "the machine's name", "yes", "same"),
        ("federation", "name", "text, at most 200 characters", '`"federation"`', "starts a new federation", "same"),
        (
            "kafka",
            "largest_update",
            "whole number, at least 1,000, at most 1,099,511,627,776, bytes",
            "`268435456`",
            "yes",
            "same",
        ),
    ],
)
def test_a_row_of_the_reference_has_the_type_default_and_change_of_a_setting(
    table, name, value, default, change, equal_bytes
):
    cells = _row(table, name)
    assert (cells[1], cells[2], cells[4], cells[5]) == (value, default, change, equal_bytes)


def test_a_coordinator_refuses_to_change_exactly_the_settings_that_the_page_says():
    """Each setting of the kept tables is refused by `wrong`, if and only if the page says no."""
    from streamfl.live.settings.kept_settings import wrong

    settings = FederationSettings.model_validate({"records": {"topics": ["r"]}})
    alias = {"records.shape": "records.schema"}
    for name, value in to_keep(settings).items():
        table, _, setting = alias.get(name, name).partition(".")
        if setting != "fields":
            refused = wrong({name: "before"}, {name: value}) is not None
            assert (_row(table, setting)[4] == "no") == refused, name


# What breaks the promise, by setting; the promise holds without any of it.
EQUAL = {
    "federation": {"min_clients": 1},
    "rounds": {"clock": "records", "deadline": 0.0},
    "records": {"topics": ["r"]},
}
UNEQUAL = {
    "federation.min_clients": ({"records": {"topics": ["r", "s"]}}, "federation.min_clients = 1"),
    "federation.task": ({"federation": {"task": "regression"}}, "targets"),
    "rounds.clock": ({"rounds": {"clock": "interval"}}, "rounds.clock"),
    "rounds.quorum": ({"rounds": {"quorum": 1}}, "rounds.quorum"),
    "rounds.deadline": ({"rounds": {"deadline": 1.0}}, "rounds.deadline"),
    "records.start": ({"records": {"start": "latest"}}, "records.start"),
    "records.lost": ({"records": {"lost": "skip"}}, "records.lost"),
    "labels.topic": ({"labels": {"topic": "l"}}, "labels.topic"),
}


def _with(change):
    tables = set(EQUAL) | set(change)
    return FederationSettings.model_validate({name: EQUAL.get(name, {}) | change.get(name, {}) for name in tables})


def test_equal_bytes_are_not_promised_with_exactly_the_settings_that_the_page_says():
    assert _with({}).unequal == ()
    said = {f"{table}.{name}" for table, fields in SETTINGS.items() for name in fields if "unequal" in fields[name]}
    assert said == set(UNEQUAL)
    for change, why in UNEQUAL.values():
        (reason,) = _with(change).unequal
        assert why in reason


def test_settings_without_effect_on_the_model_are_not_in_how_clients_learn():
    """Another value of what is told as `same` leaves the learner as it is."""
    others = {
        "rounds": {"expire_after": 7},
        "federation": {"name": "x", "min_clients": 1, "members": "trust_on_first_use"},
    }
    others |= {"client": {"buffer": 5_000, "retry": 1.0}, "score": {"probabilities": False}}
    for table, change in others.items():
        assert all(_row(table, name)[5].startswith("same") for name in change)
        assert _with({table: change}).learner == _with({}).learner
    assert set(KEPT) <= set(SETTINGS)


# Settings as documents name them: `table.name`, `[table] name`, STREAMFL_TABLE__NAME, --set table.name=.
DOTTED = re.compile(r"`(?:--set '?)?((?:records\.)?[a-z]+)\.([a-z_]+)(?: ?=[^`]*)?`|--set '?([a-z.]+)\.([a-z_]+)=")
HEADED = re.compile(r"\[([a-z.]+)\] ([a-z_]+)`")
VARIABLE = re.compile(r"STREAMFL_([A-Z]+)__([A-Z_]+?)\b(?!__)")


def _named(text):
    """Yield the table and the name of each setting that a text names."""
    for pattern in (DOTTED, HEADED, VARIABLE):
        for match in pattern.finditer(text):
            table, name = (part.lower() for part in match.groups() if part)
            if name not in {"py", "toml"}:  # a file
                yield table, name


def _unknown(named):
    return {
        f"{table}.{name}"
        for table, name in named
        if table in SETTINGS and name not in SETTINGS[table] and f"{table}.{name}" not in SETTINGS
        if not (table == "kafka" and PASSED_ON.fullmatch(name))
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_names_settings_that_exist(document):
    assert _unknown(_named(document.read_text())) - RENAMED.keys() == set()


def test_documents_name_settings_in_all_these_forms():
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    for pattern in (DOTTED, HEADED, VARIABLE):
        assert any(match.groups() for match in pattern.finditer(text))
    assert _unknown(
        [("rounds", "siez"), ("kafka", "patienc"), ("kafka", "sasl_mechanism"), ("records", "fields")]
    ) == {
        "rounds.siez",
        "kafka.patienc",
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_of_toml_name_settings_that_exist(document):
    for block in re.findall(r"```toml\n(.*?)```", document.read_text(), re.DOTALL):
        named = [
            (table, name) for table, values in tomllib.loads(block).items() if table in SETTINGS for name in values
        ]
        if "members.toml" not in block:
            assert _unknown(named) == set()
