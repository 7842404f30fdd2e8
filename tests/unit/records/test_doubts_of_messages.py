"""What looks wrong in messages is reported by `check`, by the rules for files, and changes nothing that is read."""

import json

import numpy as np
import pytest

from streamfl.records.doubts.doubting import Doubting, DoubtingOnce, Looks
from streamfl.records.doubts.of_messages import doubts
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.runtime.log.sample import judged

N = 200
A = 20.0 + np.arange(N) % 7
WITH_CODE = np.where(np.arange(N) % 10, A, -999.0)


def remarks(records, **fields):
    form = Doubting(JsonRecords.of(FieldMap(**fields)), FieldMap(**fields))
    values = [json.dumps(record).encode() for record in records]
    plain = form.form.fresh().decode(range(len(values)), values)
    found = form.fresh().decode(range(len(values)), values)
    np.testing.assert_array_equal(found.X, plain.X)  # nothing is dropped
    return found.remarks, judged("t/0", found, 1, "d")


def test_codes_and_counters_are_remarked_once_by_field_and_are_a_warning():
    records = [{"label": "ab"[i % 2], "t": WITH_CODE[i], "no": i, "x": i % 9} for i in range(N)]
    told, finding = remarks(records)
    code, counter = told
    assert code.startswith("t (10.0% of records): -999 repeats far outside the other values; if it stands for a")
    assert (
        counter.startswith("no: has whole numbers that rise, or fall, from record") and "with drop in [rec" in counter
    )
    assert (finding.state, finding.remedy) == ("warning", f"{code}; {counter}")


def test_what_the_settings_say_is_not_remarked():
    records = [{"label": "ab"[i % 2], "t": WITH_CODE[i], "no": i, "x": i % 9} for i in range(N)]
    for said in ("-999", "not:-999"):
        assert remarks(records, drop=("no",), missing_values=(said,))[0] == ()


def test_a_code_among_targets_is_remarked():
    records = [{"label": WITH_CODE[i] + 0.5 * (i % 10 > 0), "x": i % 9} for i in range(N)]
    (told,) = remarks(records, task="regression")[0]
    assert told.startswith("the target is -999 in 10.0% of the records")


def test_a_counter_of_each_client_is_one():
    records = [{"label": "ab"[i % 2], "no": i // 2 + 500 * (i % 2), "x": i % 9, "c": f"c{i % 2}"} for i in range(N)]
    (told,) = remarks(records, client="c")[0]
    assert told.startswith("no: has whole numbers that rise")


def test_values_of_texts_are_not_looked_at_and_few_records_tell_nothing():
    records = [{"label": "ab"[i % 2], "on": "yes" if i > 3 else "no", "x": i % 9} for i in range(N)]
    assert remarks(records, categories={"on": ("yes", "no")})[0] == ()
    assert remarks([{"label": "a", "no": i, "x": 1} for i in range(40)])[0] == ()


def test_packed_messages_are_looked_at_too():
    form = Doubting(Packed("classification"), FieldMap())
    message = Packed("classification").encode(("t", "x"), np.column_stack([WITH_CODE, A]), np.zeros(N), ("a", "b"))
    assert "-999 repeats" in form.decode([0], [message]).remarks[0]


@pytest.mark.parametrize("code", [-999.0, 9999.0, -200.0, 5000.0])
def test_files_and_messages_have_the_same_codes(code, tmp_path):
    column = np.where(np.arange(N) % 10, A, code)
    found = doubts(("t", "x"), np.column_stack([column, A]))
    file = tmp_path / "f.csv"
    file.write_text("t,x,y\n" + "".join(f"{t},{x},{i % 2}\n" for i, (t, x) in enumerate(zip(column, A, strict=True))))
    table = read(str(file))
    assert {name: tuple(c.value for c in some if c.is_usual) for name, some in found.codes.items()} == (
        dict(table.codes) or {"t": ()}
    )
    assert f"{code:.10g} repeats far outside the other values" in " ".join(table.notes)


def test_a_process_remarks_each_doubt_once_whatever_its_partitions_and_reads_the_same():
    n = 3000
    rng = np.random.default_rng(1)
    serial = rng.permutation(10 * n)
    records = [
        {"label": "ab"[i % 2], "t": WITH_CODE[i % N], "no": i, "unit": 7, "serial": int(serial[i])}
        | {"level": 0.1 * i, "x": i % 9, "late": -7777 if i > 2200 and i % 3 else i % 11}
        for i in range(n)
    ]
    values = [json.dumps(record).encode() for record in records]
    form = DoubtingOnce(JsonRecords.of(FieldMap()), Looks(FieldMap()))
    told = []
    east, west, plain = form.fresh(), form.fresh(), JsonRecords.of(FieldMap()).fresh()
    for i in range(0, n, 50):
        reader, offsets = (east, west)[i // 50 % 2], range(i, i + 50)
        found = reader.decode(offsets, values[i : i + 50])
        same = plain.decode(offsets, values[i : i + 50])
        np.testing.assert_array_equal(found.X[:, np.argsort(found.features)], same.X[:, np.argsort(same.features)])
        told += found.remarks
    assert len(told) == 5
    for name, what in {
        "t (10.0%": "-999 repeats",
        "no": "as a counter",
        "level": "as the reading of a meter",
        "unit": "one value",
        "serial": "as an identifier",
    }.items():
        assert any(remark.startswith(name) and what in remark for remark in told)
    form.looks.next = 0
    again = [
        remark for i in range(1500, n, 50) for remark in east.decode(range(i, i + 50), values[i : i + 50]).remarks
    ]
    assert [remark[:10] for remark in again] == ["late (19.9"]


def test_a_field_with_one_value_that_messages_lack_is_not_said_to_have_it_in_all():
    lacking = np.where(np.arange(N) % 3, 7.0, np.nan)
    all_of_it, some = doubts(("t", "unit", "seldom"), np.column_stack([A, np.full(N, 7.0), lacking])).notes()
    assert all_of_it.startswith("unit: has one value in all records")
    assert some.startswith("seldom: has one value, and none in some records: a missing value counts as the mean")
