"""Labels of a file: too long, too many, and such that no class can be meant."""

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.records.files.readers import read
from streamfl.records.labels import doubt, identifier, looks_like_identifier
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings


def test_a_label_too_long_is_a_bad_record(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,label\n1,a\n2," + "é" * 129 + "\n3," + "é" * 128 + "\n")
    table = read(str(path))
    assert [bad.reason for bad in table.rejected] == [
        'line 3, column "label": the label has more than 256 bytes, or is not UTF-8'
    ]
    assert table.labels == ("a", "é" * 128)


@pytest.mark.parametrize(("distinct", "records"), [(751, 1000), (1000, 1000), (197, 200), (500, 505)])
def test_a_label_with_nearly_as_many_values_as_records_looks_like_an_identifier(distinct, records):
    remark = looks_like_identifier("id", distinct, records)
    assert remark == (
        f"label column 'id' may be an identifier and not a label: it has {distinct} distinct values in {records} "
        "records"
    )


@pytest.mark.parametrize(("distinct", "records"), [(750, 1000), (7, 1000), (26, 26), (199, 199), (196, 200)])
def test_a_label_with_few_values_or_few_records_does_not_look_like_an_identifier(distinct, records):
    assert looks_like_identifier("class", distinct, records) == ""


def test_only_the_first_thousand_records_decide_whether_a_label_looks_like_an_identifier():
    assert identifier("id", np.concatenate([np.arange(1000), np.zeros(9000)]))
    assert not identifier("class", np.concatenate([np.arange(1000) % 7, np.arange(9000)]))


def test_a_file_with_too_many_labels_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,id\n" + "".join(f"1,{i}\n" for i in range(1200)))
    with pytest.raises(
        UsageError, match=r"1200 different labels in column id, .* 1000 distinct values in 1000 records"
    ):
        read(str(path), label="id", task="classification")


def table(features):
    d = len(features)
    return Table("t", tuple(features), np.ones((4, d)), np.array([0.0, 1.0, 0.0, 1.0]), ("a", "b"), np.arange(4))


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ([f"f{i}" for i in range(4097)], "4097 features, but a federation takes at most 4096; leave some out"),
        (["x", "y" * 257], "the name of a feature has more than 256 bytes"),
    ],
)
def test_features_that_no_federation_takes_are_refused(features, says):
    records = table(features)
    with pytest.raises(UsageError, match=says):
        Replay(
            records,
            deal(records, 1, "round-robin", 0),
            ReplaySettings(round_size=2, learning=LearningSettings(features="rounds")),
        )


def test_labels_that_are_too_many_are_refused_by_the_name_of_their_column(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("a,what\n" + "".join(f"{i % 7},word {i}\n" for i in range(1100)) + "1,word 1\n")
    with pytest.raises(UsageError, match="label column 'what' may be an identifier"):
        read(str(path), label=None)


def test_many_whole_numbers_are_classes_until_somebody_says_that_they_are_amounts() -> None:
    labels, codes = [str(2 * i) for i in range(51)], np.arange(510) % 51
    assert doubt("kW", labels, codes) == (
        "label column 'kW' has 51 different numbers, and each counts as a class: if they are amounts, "
        "add --task regression"
    )
    assert doubt("kW", labels[:50], codes % 50) == ""
    assert doubt("kW", [f"b{label}" for label in labels], codes) == ""
