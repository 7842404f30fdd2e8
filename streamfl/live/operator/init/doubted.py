"""What looks wrong in the records that `streamfl init` sees, and stands in the settings that it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from streamfl.live.operator.init.roles import Roles
from streamfl.records.columns import decimals
from streamfl.records.doubts.of_messages import doubts
from streamfl.records.doubts.of_tables import COUNTER
from streamfl.records.request import Request
from streamfl.records.values.cells import Cells, numbers


def has_commas(request: Request, fields: Mapping[str, Cells]) -> bool:
    """Return whether numbers have a decimal comma, which nobody has said."""
    return request.decimal is None and "," in decimals(fields, request.usual_decimal).values()


def doubted(
    request: Request, roles: Roles, fields: Mapping[str, Cells], owners: Sequence[str]
) -> tuple[Request, Roles]:
    """Drop counters, and treat usual codes as missing values; `init` writes both into the settings."""
    names = list(roles.features)
    if not names:
        return request, roles
    X = np.column_stack([numbers(fields[name], request.reading)[0] for name in names])
    targets = None if roles.labels else numbers(fields[roles.label], request.reading)[0]
    found = doubts(names, X, targets, owners, missing_values=request.missing_values)
    codes = found.usual(names, X)
    drop = dict.fromkeys(found.counters, COUNTER)
    roles = replace(
        roles,
        drop={**roles.drop, **drop},
        features=tuple(name for name in names if name not in drop),
        notes=(*roles.notes, *found._replace(counters=[]).notes(codes)),
    )
    return replace(request, missing_values=(*request.missing_values, *(f"{code:.10g}" for code in codes))), roles
