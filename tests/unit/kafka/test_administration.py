"""What is wrong with topics, and the copies of them: without a broker."""

import pytest
from kafka import errors as kafka_errors

from streamfl.errors import UsageError
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import CheckResult
from streamfl_connectors.kafka.access.checks import OLDEST, broker_finding, durability, failed, missing_findings
from streamfl_connectors.kafka.access.granted import role_findings
from streamfl_connectors.kafka.access.rights import OPTIONAL, Federated, Need
from streamfl_connectors.kafka.administration import (
    ALLOWANCE,
    make_missing,
    require,
    visible,
    wrong_with,
)
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.topics import TopicPlan, plans

PLAN = TopicPlan("f.state", 1, 1, {"cleanup.policy": "compact"})
FITS = {"cleanup.policy": "compact", "max.message.bytes": str(900_000 + ALLOWANCE)}


def wrong(partitions=1, configs=FITS, plan=PLAN):
    there = {} if partitions is None else {plan.name: partitions}
    return [finding.found for finding in wrong_with([plan], there, {plan.name: configs}, 900_000)]


class TestTopics:
    def test_a_topic_that_fits_is_not_reported(self):
        assert wrong() == []

    @pytest.mark.parametrize(
        ("told", "found"),
        [
            ({"partitions": None}, "topic f.state does not exist"),
            ({"partitions": 2}, "topic f.state has 2 partitions, and 1 is used"),
            (
                {"configs": FITS | {"cleanup.policy": "delete"}},
                "topic f.state has cleanup.policy delete, not compact",
            ),
            (
                {"configs": FITS | {"max.message.bytes": str(900_000 + ALLOWANCE - 1)}},
                "topic f.state takes messages of 909999 bytes, parts have 900000",
            ),
        ],
    )
    def test_each_misfit_of_a_topic_is_reported(self, told, found):
        assert wrong(**told) == [found]

    def test_everything_that_is_wrong_is_told_at_once(self):
        assert len(wrong(2, {"cleanup.policy": "delete", "max.message.bytes": "1"})) == 3

    def test_any_number_of_partitions_will_do_where_none_is_planned(self):
        assert wrong(7, plan=TopicPlan("f.updates", None, 4, {})) == []

    def test_settings_that_may_not_be_seen_are_taken_to_fit(self):
        assert wrong(configs={}) == []

    def test_errors_are_raised_with_their_remedies_and_warnings_are_not(self):
        require([CheckResult("a", "warning", "small", "grow"), CheckResult("b", "ok", "fine")])
        with pytest.raises(UsageError, match=r"^broken; mend it; torn; sew it$"):
            require([CheckResult("a", "error", "broken", "mend it"), CheckResult("b", "error", "torn", "sew it")])

    def test_the_order_of_what_the_coordinator_tells_is_that_of_one_partition(self):
        planned = {plan.name: plan for plan in plans(Topics("f"))}
        assert [planned[f"f.{name}"].partitions for name in ("control", "models", "commands", "state")] == [1] * 4
        assert planned["f.updates"].partitions is None
        assert {plan.configs["message.timestamp.type"] for plan in planned.values()} == {"LogAppendTime"}
        policies = {name: plan.configs["cleanup.policy"] for name, plan in planned.items()}
        assert policies == {
            "f.control": "delete",
            "f.models": "compact",
            "f.updates": "delete",
            "f.commands": "delete",
            "f.heartbeats": "delete",
            "f.state": "compact",
            "f.dead-letter": "delete",
        }


class Admin:
    """In place of an administrator: topics by name, with what is made."""

    def __init__(self, codes, fails=None):
        self.codes, self.fails, self.made = codes, fails, {}

    def describe_topics(self, names):
        return [{"name": name, "error_code": self.codes.get(name, 3), "partitions": [{}]} for name in names]

    def create_topics(self, topics, *, wait_for_metadata):
        if self.fails:
            raise self.fails
        self.made |= topics


class TestMaking:
    PLANS = (PLAN, TopicPlan("f.updates", None, 4, {"retention.ms": "5"}))

    def test_only_missing_topics_are_made(self):
        admin = Admin({"f.state": 0})
        assert make_missing(admin, self.PLANS, replication=2) == ["f.updates"]
        wanted = {"num_partitions": 4, "replication_factor": 2, "configs": {"retention.ms": "5"}}
        assert admin.made == {"f.updates": wanted}

    def test_no_topic_is_made_when_all_exist(self):
        admin = Admin({"f.state": 0, "f.updates": 0}, fails=AssertionError("asked"))
        assert make_missing(admin, self.PLANS, replication=1) == []

    def test_topics_that_another_process_has_just_made_count_as_made(self):
        admin = Admin({}, fails=kafka_errors.TopicAlreadyExistsError())
        assert make_missing(admin, self.PLANS, replication=1) == ["f.state", "f.updates"]

    def test_topics_that_a_log_in_may_not_see_are_none_of_its_business(self):
        assert visible(Admin({"f.state": 29, "f.updates": 3}), self.PLANS) == [self.PLANS[1]]


def topic(copies=3, in_sync=3, leader=1, partitions=1):
    part = {"leader_id": leader, "replica_nodes": list(range(copies)), "isr_nodes": list(range(in_sync))}
    return {"name": "t", "partitions": [part] * partitions}


class TestCopies:
    @pytest.mark.parametrize(
        ("told", "needed", "brokers", "state"),
        [
            ({"copies": 1, "in_sync": 1}, 1, 1, None),
            ({"copies": 1, "in_sync": 1}, 1, 3, "warning"),
            ({}, 2, 3, None),
            ({"in_sync": 2}, 2, 3, None),
            ({}, 3, 3, "warning"),
            ({"in_sync": 1}, 2, 3, "error"),
            ({"leader": -1}, 1, 3, "error"),
        ],
    )
    def test_the_loss_of_a_broker_must_not_stop_or_undo_training(self, told, needed, brokers, state):
        found = list(durability(topic(**told), {"min.insync.replicas": str(needed)}, brokers))
        assert [finding.state for finding in found] == ([] if state is None else [state])
        assert all(finding.remedy for finding in found)

    def test_an_old_broker_and_one_that_is_out_are_warnings(self):
        brokers = [{"broker_id": 1, "is_fenced": False}, {"broker_id": 2, "is_fenced": True}]
        assert broker_finding("b", OLDEST, brokers[:1]).state == "ok"
        assert broker_finding("b", (2, 8), brokers[:1]).state == "warning"
        out = broker_finding("b", OLDEST, brokers)
        assert (out.state, out.found) == ("warning", "b answers: 2 brokers, Apache Kafka 3.0; these do not answer: 2")


class TestMissing:
    def found(self, code, *, brokers=1, is_new=False, **settings):
        told = [{"name": "f.control", "error_code": code, "error_message": "because"}]
        values = KafkaSettings.model_validate({"bootstrap_servers": "b"} | settings)
        return next(missing_findings(told, values, brokers, is_new=is_new))

    def test_missing_topics_are_a_warning_only_if_others_of_the_federation_are_there(self):
        remedy = "the coordinator will make them when it starts"
        assert self.found(0) == CheckResult("topics", "warning", "no f.control yet", remedy)
        says = "none of the federation's 1 topics exist yet; the coordinator creates them at its first start"
        assert self.found(0, is_new=True) == CheckResult("topics", "ok", says)

    def test_one_copy_among_several_brokers_is_said_before_they_are_made(self):
        assert "replication_factor" in self.found(0, brokers=3).remedy
        assert "replication_factor" not in self.found(0, brokers=3, replication_factor=3).remedy

    def test_a_log_in_that_may_not_make_topics_gets_a_warning_that_names_the_right(self):
        found = self.found(29)
        assert (found.state, "CREATE" in found.remedy) == ("warning", True)

    def test_more_copies_than_brokers_are_an_error(self):
        found = self.found(38, brokers=2, replication_factor=3)
        assert (found.state, found.remedy) == ("error", "lower it to 2 or less, or add brokers")

    def test_any_other_reason_why_topics_cannot_be_made_is_reported(self):
        found = self.found(44)
        assert (found.state, found.found) == ("error", "no f.control yet, and they could not be made: because")


FEDERATED = Federated(Topics("f"), ["r"])
NEEDS = {
    role: [need for need in FEDERATED.needs(role) if need.right not in OPTIONAL] for role in ("host", "coordinator")
}


class TestRoles:
    def states(self, **lacking):
        lacks = {"host": lacking.get("hosts", 0), "coordinator": lacking.get("coordinator", 0)}
        missing = {role: NEEDS[role][:n] for role, n in lacks.items()}
        return [f.state for f in role_findings(missing, {role: len(needs) for role, needs in NEEDS.items()})]

    def test_a_log_in_may_be_for_one_role_alone(self):
        assert self.states() == ["ok", "ok"]
        assert self.states(coordinator=12) == ["ok", "warning"]
        assert self.states(hosts=5) == ["warning", "ok"]

    def test_a_right_that_a_role_lacks_is_an_error(self):
        assert self.states(hosts=1, coordinator=11) == ["error", "warning"]
        assert self.states(hosts=5, coordinator=1) == ["warning", "error"]

    def test_a_log_in_that_is_meant_for_both_is_checked_for_both(self):
        assert self.states(hosts=1) == ["error", "ok"]
        assert self.states(hosts=1, coordinator=1) == ["error", "error"]

    def test_a_log_in_that_may_do_hardly_anything_is_an_error(self):
        assert self.states(hosts=6, coordinator=13) == ["error", "error"]
        assert self.states(hosts=5, coordinator=12) == ["error", "warning"]

    def test_a_right_that_a_log_in_lacks_is_named_with_the_remedy(self):
        missing = {"host": [Need("WRITE", "topic", "f.updates")], "coordinator": []}
        finding = next(role_findings(missing, {"host": 6, "coordinator": 9}))
        assert finding.found == "this log-in lacks WRITE on topic f.updates"
        assert finding.remedy == "grant it WRITE on topic f.updates: `streamfl acls --role host` prints how"

    @pytest.mark.parametrize(
        ("lacking", "told"),
        [
            ({}, ["rights of hosts", "rights of the coordinator"]),
            ({"host": 6, "coordinator": 8}, ["rights of hosts", "rights of the coordinator", "rights of watch"]),
        ],
    )
    def test_roles_of_few_rights_are_told_to_log_ins_that_have_no_other(self, lacking, told):
        needed = {"host": 6, "coordinator": 9, "watch": 1}
        missing = {role: [Need("READ", "topic", "t")] * lacking.get(role, 0) for role in needed}
        assert [finding.subject for finding in role_findings(missing, needed)] == told


def test_an_error_of_kafka_python_without_a_meaning_of_ours_has_a_remedy_too():
    finding = failed("topics", kafka_errors.PolicyViolationError("too many"))
    assert "too many" in finding.found
    assert finding.remedy
