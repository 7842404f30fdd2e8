"""What the settings' names of topics mean."""

import pytest

from streamfl.runtime.log.placement import partition_of
from streamfl.runtime.ports import Placement


class TestPartitions:
    """Whatever a client says of a partition: only what may hold records is one."""

    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("r.c1/0", ("r.c1", 0)),
            ("r.a/b/17", ("r.a/b", 17)),
            ("r.c1/00", None),
            ("r.c1/12345678", None),
            ("r.c1/", None),
            ("r.c1", None),
            ("r./0", None),
            ("s.c1/0", None),
            ("r.own/0", None),
            ("r." + "x" * 256 + "/0", None),
        ],
    )
    def test_only_a_partition_of_the_placement_counts_as_one(self, name, found):
        assert partition_of(Placement(("r.*",)), {"r.own"}, name) == found
