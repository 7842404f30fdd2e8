"""Files of unusual shapes are read, or the refusal names their cause; the same table in every shape."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.records.table import Table

HEADER, ROWS = "a,b,y\n", "".join(f"{i / 4},{i % 5},{'on' if i % 2 else 'off'}\n" for i in range(12))
PLAIN = HEADER + ROWS
BOM = "\ufeff"


def named(*rows: str) -> str:
    return HEADER + "".join(f'"r{i}",{row}\n' for i, row in enumerate(ROWS.splitlines()))


SHAPES = {
    "row names": named(),
    "row numbers": HEADER + "".join(f"{i},{row}\n" for i, row in enumerate(ROWS.splitlines())),
    "comments before": "# station 12\n# made 2026\n" + PLAIN,
    "comments within": HEADER + ROWS[:60] + "# calibrated\n" + ROWS[60:],
    "header in a comment": "# station 12\n# " + PLAIN,
    "percent": "% station\n%\n" + PLAIN,
    "preamble": "Station 12\nMade,2026\n\n" + PLAIN,
    "sep=": "sep=,\n" + PLAIN,
    "trailing separators": PLAIN.replace("\n", ",\n"),
    "trailing separators in rows": HEADER + ROWS.replace("\n", ",\n"),
    "trailing separator in the header": "a,b,y,\n" + ROWS,
    "trailing separator in one row": HEADER + ROWS[:-1] + ",\n",
    "byte order mark": BOM + PLAIN,
    "byte order mark before comments": BOM + "# made\n" + PLAIN,
    "byte order mark after sep=": "sep=,\n" + BOM + PLAIN,
    "byte order mark within": HEADER + ROWS.replace("\n", f"\n{BOM}", 3),
    "blank lines": "\n\n" + PLAIN,
    "Windows": PLAIN.replace("\n", "\r\n"),
}  # fmt: skip


def of(tmp_path: Path, content: bytes | str, name: str = "f.csv", **options: object) -> Table:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(str(path), **options)  # type: ignore[arg-type]


def same(table: Table, right: Table) -> None:
    assert (table.features, table.labels, table.rejected) == (right.features, right.labels, ())
    np.testing.assert_array_equal(table.X, right.X)
    np.testing.assert_array_equal(table.y, right.y)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_is_the_same_whatever_is_around_it(shape: str, tmp_path: Path) -> None:
    right = of(tmp_path, PLAIN, "plain.csv")
    same(of(tmp_path, SHAPES[shape]), right)
    same(of(tmp_path, SHAPES[shape] * 1, "f.csv", label="y"), right)


def test_a_long_file_of_each_shape_keeps_its_records(tmp_path: Path) -> None:
    for shape in ("row names", "preamble", "trailing separators", "sep="):
        begin, _, row = SHAPES[shape].rstrip("\n").rpartition("\n")
        table = of(tmp_path, begin + f"\n{row}" * 9000 + "\n")
        assert (len(table), table.rejected, table.features) == (9011, (), ("a", "b")), shape


def test_a_decimal_comma_hides_no_separator(tmp_path: Path) -> None:
    text = "a;b;y\n" + "".join(f"{i},5;-{i};{'on' if i % 2 else 'off'}\n" for i in range(40))
    with pytest.raises(UsageError, match='its columns are separated by ";"; add --separator ";"'):
        of(tmp_path, text)
    assert of(tmp_path, text, separator=";").X[:2].tolist() == [[0.5, 0.0], [1.5, -1.0]]


def test_a_directive_names_the_separator(tmp_path: Path) -> None:
    same(of(tmp_path, "sep=;\n" + PLAIN.replace(",", ";")), of(tmp_path, PLAIN, "plain.csv"))
    assert of(tmp_path, SHAPES["preamble"]).notes[0] == "the 2 lines before the header are left out"


def test_row_names_can_be_clients(tmp_path: Path) -> None:
    table = of(
        tmp_path, HEADER + ROWS.replace("\n", "\nnorth,").removesuffix("north,").join(["north,", ""]), keep="row"
    )
    assert set(table.columns["row"].tolist()) == {"north"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-8-sig", "iso-8859-15"])
def test_a_file_is_read_in_its_encoding(encoding: str, tmp_path: Path) -> None:
    text = PLAIN.replace("a,b", "größe,b").replace("off", "für")
    right = of(tmp_path, text, "plain.csv")
    data = text.encode(encoding)
    by_mark = encoding in {"utf-16", "utf-8-sig"}
    same(of(tmp_path, data, encoding=None if by_mark else encoding), right)
    same(of(tmp_path, gzip.compress(data), "f.csv.gz", encoding=None if by_mark else encoding), right)
    lines = "".join(json.dumps({"größe": i, "y": i % 2}, ensure_ascii=False) + "\n" for i in range(4))
    found = of(tmp_path, lines.encode(encoding), "f.jsonl", encoding=None if by_mark else encoding)
    assert found.features == ("größe",)


def test_a_suspected_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'line 1, byte 3 is not UTF-8; .*--encoding cp1252, which reads "größe"'):
        of(tmp_path, "größe,y\n1,0\n".encode("cp1252"))
    with pytest.raises(UsageError, match="it looks like UTF-16; add --encoding utf-16-le"):
        of(tmp_path, PLAIN.encode("utf-16-le"))
    with pytest.raises(UsageError, match="there is no encoding 'latin-99'; name one such as"):
        of(tmp_path, PLAIN, encoding="latin-99")
    with pytest.raises(UsageError, match=r"near line 2 it is not utf-16: .*; correct --encoding"):
        of(tmp_path, "a,y\n1,0\n".encode("utf-16") + b"\x00\xdc1\x00")


def test_the_first_cause_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its header has 3 names, but its lines have 5 fields; give each column a"):
        of(tmp_path, HEADER + "1,2,3,4,5\n" * 9)
    with pytest.raises(UsageError, match='its columns are separated by ";"; add --separator ";"'):
        of(tmp_path, "Station 12\n\n" + PLAIN.replace(",", ";"))


DOCUMENT = [{"a": i / 4, "b": i % 5, "y": "on" if i % 2 else "off"} for i in range(12)]


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT,
        {"data": DOCUMENT, "count": 12},
        {name: [record[name] for record in DOCUMENT] for name in "aby"},
        {name: {str(i): record[name] for i, record in enumerate(DOCUMENT)} for name in "aby"},
        {"columns": list("aby"), "index": [*range(12)], "data": [list(record.values()) for record in DOCUMENT]},
    ],
)
def test_a_json_document_is_the_same_table(document: object, tmp_path: Path) -> None:
    right = of(tmp_path, PLAIN, "plain.csv")
    same(of(tmp_path, json.dumps(document), "f.json"), right)
    same(of(tmp_path, json.dumps(document, indent=1).encode("utf-8-sig"), "f.json"), right)


def test_json_lines_may_be_called_json(tmp_path: Path) -> None:
    same(of(tmp_path, "\n".join(map(json.dumps, DOCUMENT)), "f.json"), of(tmp_path, PLAIN, "plain.csv"))
    with pytest.raises(UsageError, match=r"it is not JSON \(.*give a list of objects"):
        of(tmp_path, "[1,", "f.json")
    with pytest.raises(UsageError, match="it has no records; give a list of objects"):
        of(tmp_path, "[]", "f.json")
    assert [r.reason for r in of(tmp_path, json.dumps([*DOCUMENT, 7]), "f.json").rejected] == [
        "record 13: not a JSON object"
    ]


ARFF = "% made\n@RELATION r\n\n@attribute a NUMERIC\n@attribute 'b' real\n@ATTRIBUTE y {off, on}\n@DATA\n"


def test_arff_is_the_same_table(tmp_path: Path) -> None:
    right = of(tmp_path, PLAIN, "plain.csv")
    same(of(tmp_path, ARFF + ROWS, "f.arff"), right)
    same(of(tmp_path, ARFF + "% note\n" + ROWS.replace("off", "'off'").replace(",", ", "), "f.arff"), right)
    sparse = "".join(f"{{0 {i / 4}, 1 {i % 5}{', 2 on' if i % 2 else ''}}}\n" for i in range(12))
    same(of(tmp_path, ARFF + sparse, "f.arff"), right)
    quoted = ARFF.replace("'b'", "'b (m, s)'") + "1,?,'on'\n2,3,off\n"
    assert of(tmp_path, quoted, "f.arff").features == ("a", "b (m, s)")
    bad = of(tmp_path, ARFF + ROWS + "1,2\n{9 1}\n", "f.arff").rejected
    assert [r.reason[:30] for r in bad] == ["line 20: it has 2 fields, but ", "line 21: it has 1 field, but t"]
    with pytest.raises(UsageError, match="it has 3 attributes and no line @data"):
        of(tmp_path, ARFF.replace("@DATA\n", ""), "f.arff")
    with pytest.raises(UsageError, match="line 4: a relational attribute holds a table in each record"):
        of(tmp_path, ARFF.replace("@attribute a", "@attribute r relational\n@attribute a"), "f.arff")


def test_a_list_of_numbers_is_a_feature_for_each_in_files_and_messages(tmp_path: Path) -> None:
    records = [{"v": [i, i + 0.5], "tags": ["x"], "y": i % 2} for i in range(4)]
    table = of(tmp_path, "\n".join(map(json.dumps, records)), "f.jsonl", drop=("tags",))
    messages = [json.dumps(record).encode() for record in records]
    found = JsonRecords(FieldMap(label="y", drop=("tags",))).decode(range(4), messages)
    assert table.features == found.features == ("v.0", "v.1")
    np.testing.assert_array_equal(found.X, table.X)
    listed = JsonRecords(FieldMap(label="y", features=("v.1",))).decode(range(4), messages)
    np.testing.assert_array_equal(listed.X[:, 0], table.X[:, 1])


def test_a_byte_order_mark_before_a_message_is_no_part_of_it() -> None:
    found = JsonRecords(FieldMap()).decode([0], [b'\xef\xbb\xbf{"label":"a","x":1}'])
    assert (found.rejected, found.X.tolist()) == ((), [[1.0]])


def test_a_series_alone_has_its_last_values_as_features(tmp_path: Path) -> None:
    lines = "".join(f"2026-03-{i + 1:02},{100 + i * i}\n" for i in range(20))
    table = of(tmp_path, "day,sold\n" + lines, time="day")
    assert (table.labels, table.features[:2], len(table)) == ((), ("sold[-1]", "sold[-2]"), 20)
    np.testing.assert_array_equal(table.X[:3, :2], [[np.nan, np.nan], [100, np.nan], [101, 100]])
    assert "so its last 12 values are the features" in table.notes[0]


def test_columns_may_be_separated_by_any_number_of_blanks(tmp_path: Path) -> None:
    text = "".join("  " + line.replace(",", "   ") + "\n" for line in PLAIN.splitlines())
    with pytest.raises(UsageError, match='its columns are separated by " "; add --separator space'):
        of(tmp_path, text)
    same(of(tmp_path, text, separator=" "), of(tmp_path, PLAIN, "plain.csv"))


def test_a_series_without_its_times_is_told_to_name_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="predict a number from its last values: --time day"):
        of(tmp_path, "day,sold\n" + "".join(f"2026-03-{i + 1:02},{i}\n" for i in range(20)))


def test_who_reads_a_large_file_hears_how_far_it_is(tmp_path: Path) -> None:
    heard: list[int] = []
    of(tmp_path, HEADER + ROWS * 6000, watch=heard.append)
    assert (heard[-1], heard, len(heard)) == (72_000, sorted(heard), 3)


@pytest.mark.parametrize(
    ("below", "told"),
    [
        ("V,s,\n", 'the line below the header holds no record, and is left out: "V", "s", ...'),
        ("V,s,\n,,Avg\n", '2 lines below the header hold no record, and are left out: "V", "s", ...'),
    ],
)
def test_lines_of_units_below_the_header_are_no_records(below: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a,b,y\n" + below + "".join(f"{i}.5,{i % 7},{'on' if i % 2 else 'off'}\n" for i in range(50)))
    table = read(str(path), keep="y")
    assert (len(table), table.labels, table.rejected) == (50, ("off", "on"), ())
    assert table.notes[0] == told


@pytest.mark.parametrize("first", ["NA,NA,on", ",,on", "1,x,on", "x,2,on"])
def test_a_first_record_that_lacks_values_is_one(first: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(f"a,b,y\n{first}\n" + "".join(f"{i}.5,{i % 7},{'on' if i % 2 else 'off'}\n" for i in range(50)))
    assert len(read(str(path))) == 51


def test_a_title_with_empty_cells_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("Spectra of station 7,,\nwave,x,y\n" + "".join(f"{i % 9},{i % 7}.5,{i % 2}\n" for i in range(50)))
    table = read(str(path))
    assert (table.features, table.label, table.notes) == (
        ("wave", "x"),
        "y",
        ("the 1 line before the header is left out",),
    )


@pytest.mark.parametrize(
    ("kinds", "roles"),
    [
        ("d\tdiscrete\tstring\tno yes", "\t\tmeta\tclass"),
        ("d\td\ts\td", "\t\tm\tclass"),
        ("\tm f\ttext\tcategorical", "\t\tignore\tc"),
    ],
)
def test_a_file_of_orange_says_itself_what_its_columns_are(kinds: str, roles: str, tmp_path: Path) -> None:
    header, rows = "age\tsex\tname\tsurvived\n", "adult\tm\tA\tyes\nchild\tf\tB\tno\n" * 3
    table = of(tmp_path, f"{header}{kinds}\n{roles}\n{rows}", "f.tab")
    plain = of(tmp_path, header + rows, "plain.tsv", drop=("name",))
    same(table, plain)
    assert (table.label, table.labels) == ("survived", ("no", "yes"))
    assert table.notes == ("left out: column name is marked as " + roles.split("\t")[2] + " by the file",)
    named = of(tmp_path, f"{header}{kinds}\n{roles}\n{rows}", "f.tab", label="sex")
    assert (named.label, len(named)) == ("sex", 6)


@pytest.mark.parametrize("kinds", ["d\td", "discrete\tdiscrete", "none some\td"])
def test_what_a_category_of_orange_calls_none_is_a_value(kinds: str, tmp_path: Path) -> None:
    table = of(
        tmp_path, f"pain\tkind\n{kinds}\n\tclass\n" + "none\tnone\nsome\tmild\n?\tmild\nsome\t?\n" * 3, "f.tab"
    )
    assert (table.features, table.labels, len(table)) == (("pain=none", "pain=some"), ("mild", "none"), 9)
    assert len(table.rejected) == 3
    assert np.isnan(table.X[2]).all()


def test_a_value_that_an_attribute_lists_is_no_missing_one(tmp_path: Path) -> None:
    head = "@relation r\n@attribute pain {none, some}\n@attribute x numeric\n"
    head += "@attribute kind {none,mild,'no data'}\n@data\n"
    table = of(tmp_path, head + "none,1,none\nsome,2,mild\n?,none,'no data'\n" * 3, "f.arff")
    assert (table.features, table.labels) == (("pain=none", "pain=some", "x"), ("mild", "no data", "none"))
    assert np.isnan(table.X[2]).all()


def test_a_class_of_numbers_in_a_file_of_orange_is_a_target(tmp_path: Path) -> None:
    text = "a\tprice \nc\tc\n\tclass\n" + "".join(f"{i % 5}\t{i}\n" for i in range(9))
    assert (of(tmp_path, text, "f.tab").labels, of(tmp_path, text, "f.tab").label) == ((), "price")


def test_a_table_of_texts_that_begins_like_kinds_is_no_file_of_orange(tmp_path: Path) -> None:
    assert len(of(tmp_path, "a\ty\nc\td\nx\tclass\nx\td\n", "f.tab")) == 3
