"""What the settings' names of topics mean."""

import pytest

from streamfl.log.placement import partition_of, wrong_placement
from streamfl.ports import Placement


class TestPlacement:
    @pytest.mark.parametrize(
        ("placement", "partitions", "told"),
        [
            (Placement(("a",)), 1, []),
            (Placement(("a",)), 2, ["topic a has 2 partitions, and one client by topic reads one"]),
            (Placement(("a",), "partition"), 2, []),
            (Placement(("a",), "partition", 2), 2, []),
            (Placement(("a",), "partition", 3), 2, ["topic a has 2 partitions, the settings say 3"]),
            (Placement(("a",), "key", 3), 4, ["topic a has 4 partitions, the settings say 3"]),
        ],
    )
    def test_topics_of_records_have_the_partitions_that_clients_need(self, placement, partitions, told):
        assert [finding.found for finding in wrong_placement(placement, {"a": partitions})] == told


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
