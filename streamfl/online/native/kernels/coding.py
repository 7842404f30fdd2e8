"""Adaptive arithmetic coding of whole numbers: by whole numbers alone, so the same bytes on every machine.

Each number becomes binary decisions, and a decision takes -log2 p bits, where p is what two counters expect of it:
one knows what stands near the number, one its place. Counters learn from the decisions before, which the reader knows
as well, so no frequencies are sent. The coder is that of M. Mahoney's paq (2002), after I. Witten, R. Neal and
J. Cleary, "Arithmetic coding for data compression" (1987).
"""

import numpy as np
import numpy.typing as npt

from streamfl.arrays import IntArray
from streamfl.online.native.kernels.compiled import compiled, inner

# Probabilities are parts of ONE, and no nearer to 0 or ONE than SURE. A counter follows slower the more it has seen,
# up to SLOWEST decisions.
ONE, SURE, SLOWEST = 1 << 16, 32, 60

# 1 / n in parts of 1 << 24, since to divide takes most of the time.
ONE_OVER = (1 << 24) // np.maximum(np.arange(2 * SLOWEST + 4), 1)

# What a coder knows: the interval, the bytes read from there, how far it has come, and whether it reads.
LOW, HIGH, FOUND, AT, READS = range(5)

# The interval has 32 bits. Behind the last byte a reader finds zeros, as many as an interval has.
MASK, TOP, BEYOND = 0xFFFFFFFF, 0xFF000000, 4

# Hardly ever does a number take more bytes; then it is tried with room for more, and anyway for a few.
MOST, ROOM = 8, 64

# Counters tell apart so many places in a row, groups of rows, and bits of a number.
PLACES, GROUPS, SIZES = 32, 8, 34

# Where the counters of each decision begin: whether a row has any number, and a number is not 0, is negative, has
# more bits; and its second bit. The first are those that know what is near.
ANY, ANY_AT = 0, 64
SOME, SOME_AT = 80, 176
SIGN, SIGN_AT = 1712, 1730
MORE, MORE_AT = 3266, 5510
NEXT, NEXT_AT = 7686, 7720
COUNTERS = 9964


def written(m: IntArray, groups: int) -> bytes:
    """Return whole numbers of shape (rows, columns) as bytes; see `coded` for `groups`."""
    numbers, room = np.array(m, np.int64, order="C"), ROOM
    while True:
        room += MOST * m.size
        coder, data = np.array([0, MASK, 0, 0, 0]), np.zeros(room, np.uint8)
        if coded(numbers, groups, _counters(), coder, data):
            break
    end = int(coder[AT])
    if coder[LOW]:  # any number within the interval, of as few bytes as possible
        data[end] = coder[HIGH] >> 24
        end += 1
    return data[:end].tobytes()


def read(data: bytes, m: IntArray, groups: int) -> bool:
    """Read whole numbers into an array of their shape; tell whether they were all there, and nothing else.

    >>> m, again = np.array([[3, -1], [0, 0], [2**31, 5]]), np.zeros((3, 2), np.int64)
    >>> read(written(m, 1), again, 1), again.tolist(), read(b"", np.zeros((9, 9), np.int64), 1)
    (True, [[3, -1], [0, 0], [2147483648, 5]], False)
    """
    found = int.from_bytes(data[:BEYOND].ljust(BEYOND, b"\0"))
    coder = np.array([0, MASK, found, BEYOND, 1])
    there = coded(m, groups, _counters(), coder, np.frombuffer(data, np.uint8).copy())
    return bool(there and len(data) <= coder[AT] - BEYOND + 1)


def _counters() -> IntArray:
    """Return counters that have seen nothing: what each expects, and how much it has seen."""
    made = np.zeros((COUNTERS, 2), np.int64)
    made[:, 0] = ONE // 2
    return made


@inner
def bit(coder: IntArray, data: npt.NDArray[np.uint8], expected: int, outcome: int) -> int:
    """Write or read one binary decision, 1 with a probability of so many parts of ONE."""
    low, high = coder[LOW], coder[HIGH]
    middle = low + ((high - low) >> 16) * expected + ((((high - low) & 0xFFFF) * expected) >> 16)
    if coder[READS]:
        outcome = 1 if coder[FOUND] <= middle else 0
    if outcome:
        high = middle
    else:
        low = middle + 1
    while not (low ^ high) & TOP:
        at = coder[AT]
        if coder[READS]:
            following = np.int64(data[at]) if at < len(data) else 0
            coder[FOUND] = (coder[FOUND] << 8) & MASK | following
        elif at < len(data):
            data[at] = high >> 24
        coder[AT] = at + 1
        low, high = (low << 8) & MASK, (high << 8) & MASK | 255
    coder[LOW], coder[HIGH] = low, high
    return outcome


@inner
def decision(
    coder: IntArray, data: npt.NDArray[np.uint8], counts: IntArray, near: int, place: int, outcome: int
) -> int:
    """Write or read a decision of which two counters expect something: the one that has seen more counts for more."""
    seen, seen_there = counts[near, 1], counts[place, 1]
    both = counts[near, 0] * (seen + 1) + counts[place, 0] * (seen_there + 1)
    expected = (both * ONE_OVER[seen + seen_there + 2]) >> 24
    outcome = bit(coder, data, min(max(expected, SURE), ONE - SURE), outcome)
    for counter in (near, place):
        seen = counts[counter, 1]
        counts[counter, 0] += ((outcome * ONE - counts[counter, 0]) * 2 * ONE_OVER[2 * seen + 3]) >> 24
        counts[counter, 1] = min(seen + 1, SLOWEST)
    return outcome


@inner
def length(number: int) -> int:
    """Return how many bits a number has that is at least 0."""
    bits = 0
    while number >> bits:
        bits += 1
    return bits


@inner
def size(coder: IntArray, data: npt.NDArray[np.uint8], counts: IntArray, level: int, place: int, number: int) -> int:
    """Write or read a number of at least 1: how many bits it has, then these; -1 if they are too many."""
    wanted, bits = length(number), 1
    while decision(
        coder, data, counts, MORE + SIZES * level + bits, MORE_AT + SIZES * place + bits, 1 if wanted > bits else 0
    ):
        bits += 1
        if bits >= SIZES:
            return -1
    made = 1
    for k in range(bits - 2, -1, -1):
        if k == bits - 2:
            one = decision(coder, data, counts, NEXT + bits, NEXT_AT + SIZES * level + bits, (number >> k) & 1)
        else:
            one = bit(coder, data, ONE // 2, (number >> k) & 1)
        made = 2 * made + one
    return made


@inner
def has_any(m: IntArray, i: int) -> int:
    """Tell whether a row has a number that is not 0; one that does not exist has none."""
    if i >= 0:
        for j in range(m.shape[1]):
            if m[i, j]:
                return 1
    return 0


@inner
def signum(number: int) -> int:
    """Return 0, 1 or 2 for 0, numbers above and below it."""
    return 0 if number == 0 else (1 if number > 0 else 2)


@compiled
def coded(m: IntArray, groups: int, counts: IntArray, coder: IntArray, data: npt.NDArray[np.uint8]) -> bool:
    """Write a table of whole numbers, or read it; tell whether that was possible.

    Parameters
    ----------
    m
        Shape (rows, columns), each number less than 2^32 in size.
    groups
        The number of kinds of rows, which alternate; rows of one kind resemble each other.
    counts, coder, data
        Those of a writer or a reader.
    """
    rows, columns = m.shape
    room, mean = len(data) + (BEYOND if coder[READS] else -1), 0
    for i in range(rows):
        group, above = min(i % groups, GROUPS - 1), i - groups
        if columns > 1:
            last = has_any(m, i - 1)
            near = 8 * group + 4 * last + 2 * has_any(m, above) + has_any(m, above - groups)
            if not decision(coder, data, counts, ANY + near, ANY_AT + 2 * group + last, has_any(m, i)):
                continue
        total, some = 0, 0
        for j in range(columns):
            over = m[above, j] if above >= 0 else 0
            if columns > 1:
                left, sums = abs(m[i, j - 1]) if j else 0, 2 * signum(total) + some
                level, kind = length(max(abs(over), left)), 8 * group + min(j, 7)
                place = (sums * PLACES + min(j, PLACES - 1)) * GROUPS + group
            else:  # half steps of the logarithm of the mean of the last ones, in sixteenths
                left, sums = abs(m[i - 1, 0]) if i else 0, 0
                level = length(mean)
                level = 2 * level + ((mean >> (level - 2)) & 1 if level > 1 else 0)
                kind = place = level
            near, level, kind = 16 * sums + 4 * min(abs(over), 3) + min(left, 3), min(level, 65), min(kind, 63)
            number = m[i, j]
            if decision(coder, data, counts, SOME + near, SOME_AT + place, 1 if number else 0):
                near = SIGN + 3 * sums + signum(over)
                negative = decision(coder, data, counts, near, SIGN_AT + place, 1 if number < 0 else 0)
                made = size(coder, data, counts, level, kind, abs(number))
                if made < 0:
                    return False
                number = -made if negative else made
                some = 1
            else:
                number = 0
            m[i, j] = number
            total += number
            mean += ((abs(number) << 4) - mean) >> 4 if columns == 1 else 0
        if coder[AT] > room:
            return False
    return bool(coder[AT] <= room)
