"""Reads numbers as people and programs write them: with thousands, a decimal comma, another minus."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

Decimal = Literal[".", ","]

_PLAIN = str.maketrans({**dict.fromkeys("−–－﹣‐‑", "-"), **dict.fromkeys("\xa0\u2009\u202f", " "), "’": "'"})
_EXPONENT = r"(?:[eEdD][-+]?\d{1,4})?"


def _form(point: str, comma: str) -> re.Pattern[str]:
    grouped = rf"[1-9]\d{{0,2}}(?P<by>[{comma} '_])\d{{3}}(?:(?P=by)\d{{3}})*|[1-9]\d?(?:{comma}\d\d)+{comma}\d{{3}}"
    return re.compile(rf"[-+]?(?:(?:{grouped}|\d+)(?:{point}\d*)?|{point}\d+){_EXPONENT}")


_FORMS: dict[Decimal, re.Pattern[str]] = {".": _form(r"\.", ","), ",": _form(",", r"\.")}
_NOT_DIGITS: dict[Decimal, dict[int, str | None]] = {
    ".": str.maketrans({**dict.fromkeys(", '_"), "d": "e", "D": "e"}),
    ",": str.maketrans({**dict.fromkeys(". '_"), ",": ".", "d": "e", "D": "e"}),
}
# Digits and little else: a measurement with its unit, a percentage, an amount of money.
_WITH_MORE = re.compile(r"[^\w\s]?\s?[-+]?\d[\d.,' ]*\s?[^\d\s]{1,6}|[^\w\s]\s?[-+]?\d[\d.,' ]*")


# A unit, as in mV, °C, %, kW/m2 and m³/h; before the number, a sign of money.
_WITH_UNIT = re.compile(
    r"(?!0[xX])(?P<before>[$€£¥])?\s?(?P<number>[-+]?(?:\d[\d.,' ]*\d|\d)[.,]?(?:[eE][-+]?\d{1,3})?)\s?"
    r"(?P<after>(?:[^\W\d_]|[%°‰′″€$£¥])[\w%°/²³⁻¹·*^.-]{0,11})?"
)


def with_unit(text: str) -> tuple[str, str] | None:
    """Return the number and the unit that a text has, None if it is not one number and one unit.

    >>> [with_unit(text) for text in ("12.5 mV", "23°C", "45 %", "€ 5", "1,5 kW/m2", "5", "E2", "12:30", "0x1F")]
    [('12.5', 'mV'), ('23', '°C'), ('45', '%'), ('5', '€'), ('1,5', 'kW/m2'), None, None, None, None]
    >>> with_unit("4 x 4") is None
    True
    """
    found = _WITH_UNIT.fullmatch(_bare(text))
    units = [] if found is None else [found[name] for name in ("before", "after") if found[name]]
    return (found["number"], units[0]) if found is not None and len(units) == 1 else None


def numeral(text: str, decimal: Decimal | None) -> float | None:
    """Return the number that a text is, or None.

    Parameters
    ----------
    decimal
        The decimal mark; None if it is not known. The other one counts too, where a text can only be read with it.

    Raises
    ------
    ValueError
        The text is a different number with each decimal mark, and the mark is not known.

    Examples
    --------
    >>> [numeral(text, None) for text in ("1,234.5", "1.234,5", "17,1", "1 234", "−0.5", "1.5D+03", "'7'", "x")]
    [1234.5, 1234.5, 17.1, 1234.0, -0.5, 1500.0, 7.0, None]
    >>> numeral("1,234", "."), numeral("1,234", ","), numeral("12,34,567", None)
    (1234.0, 1.234, 1234567.0)
    >>> numeral("1,234", None)
    Traceback (most recent call last):
    ValueError: may be 1234 or 1.234
    """
    plain = _bare(text)
    if decimal is not None:
        first = _read(plain, decimal)
        return first if first is not None else _read(plain, "," if decimal == "." else ".")
    point, comma = _read(plain, "."), _read(plain, ",")
    if point is not None and comma is not None and point != comma:
        raise ValueError(f"may be {point:.10g} or {comma:.10g}")
    return comma if point is None else point


def _bare(text: str) -> str:
    """Return a text with plain signs and blanks, without quotes and blanks around it."""
    return text.translate(_PLAIN).strip().strip("\"'").strip()


def _read(text: str, decimal: Decimal) -> float | None:
    return float(text.translate(_NOT_DIGITS[decimal])) if _FORMS[decimal].fullmatch(text) else None


def decimal_marks(words: Iterable[str]) -> Iterator[Decimal]:
    """Yield the decimal mark of each text that has one, since it is not a number with the other.

    >>> [*decimal_marks(["17,1", "1.234,5", "5"])], [*decimal_marks(["1,234", "5", "1.5"])]
    ([',', ','], ['.'])
    """
    for word in words:
        if "," in word or "." in word:
            point, comma = _both(_bare(word))
            if point is None and comma is None and (parts := with_unit(word)) is not None:
                point, comma = _both(parts[0])
            if (point is None) != (comma is None):
                yield "," if point is None else "."


def _both(text: str) -> tuple[float | None, float | None]:
    return _read(text, "."), _read(text, ",")


def in_other_notation(text: str) -> bool:
    """Return whether a text is a number with something else, such as its unit.

    >>> [in_other_notation(text) for text in ("12.5 °C", "€ 5", "40%", "E2", "12:30", "")]
    [True, True, True, False, False, False]
    """
    return _WITH_MORE.fullmatch(text.translate(_PLAIN)) is not None
