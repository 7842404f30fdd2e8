"""The page in a real browser: what is drawn is what was told, whoever told it."""

import json
import time

import pytest
from integration.chromium import FOUND, browser
from unit.live.page.told import IMAGE, accepted, closed, drifted, heard, joined, left, opened, refused, restarted
from unit.run.conftest import made_up  # noqa: F401  a fixture

from streamfl.live.page.service import shown
from streamfl.live.page.source import PageSource
from streamfl.protocol.messages import Served
from streamfl.run.page.report import render
from streamfl.runtime.ports import LoggedDeadLetter

pytestmark = [
    pytest.mark.full,
    pytest.mark.process,
    pytest.mark.browser,
    pytest.mark.skipif(FOUND is None, reason="needs Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


def federation(rounds=60, names=("plant-1", "plant-2", "plant-3")):
    """A source with a restart in round 20, a local drift in round 30, and a client that left."""
    told = [*map(joined, names), opened(1)]
    for n in range(1, rounds + 1):
        there = names[: 3 - (n > rounds - 2)]
        updates = [accepted(name, 10 + n % 3, 100 * n, n % 2, (5.0, 4.0)) for name in there]
        records = sum(one.records for one in updates)
        told.append(closed(n, updates, correct=records * 3 // 4, no_change=records * 0.4, epoch=1 + (n > 20)))
        if n == 20:
            more = {
                "positions": {"r.plant-1/0": (10, 90)},
                "scores": {"incumbent": 0.75, "scratch": 0.25, "recall-1": 0.5},
            }
            told.append(restarted(n, 2, clients=(names[0],), labels=("a", "b"), **more))
        if n == 30:
            told.append(drifted(n, "latched", (names[1],)))
        told.append(opened(n + 1, 1 + (n >= 20)))
    return told


@pytest.fixture
def source():
    made = PageSource("forest", heard(*federation()), clock=lambda: 0.0)
    made.letters.add(LoggedDeadLetter("r.plant-1", 0, 7, "the label is missing", 1_700_000_000_000))
    return made


@pytest.fixture
def url(source):
    with shown(source, "0") as there:
        yield there


def drawn(tab):
    """What the page shows, as numbers."""
    one = lambda name: json.loads(tab.named(name)[0])  # noqa: E731
    return {name: one(name) for name in ("value", "lately", "round", "records", "clients", "restarts", "statistic")}


def told(view):
    """The same from the view."""
    head = view["headline"]
    names = ("value", "lately", "round", "records", "clients", "restarts")
    return {name: head[name] for name in names} | {"statistic": head["readings"][0]["statistic"]}


def ready(tab, entry):
    tab.until(f"document.body?.dataset.entry === '{entry}'")


def test_numbers_are_those_of_the_log_now_and_as_of_an_entry(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    view = source.now()[1]
    assert drawn(tab) == told(view)
    assert tab.named("drift") == ["30", "20"]
    assert tab.named("letters") == ["1"]
    assert [int(value) for value in tab.named("client")] == [row[4] for row in view["clients"]]
    assert tab.named("entry-59") == ["24"]
    # What the chart has drawn are the rounds, and it has drawn something.
    assert tab.value("chart.data") == [
        [point[7] / 1000 for point in view["rounds"]],
        [point[6] for point in view["rounds"]],
        [point[5] for point in view["rounds"]],
    ]
    assert tab.value("[...chart.ctx.getImageData(0, 0, 900, 300).data].some(x => x > 0)")

    tab.value("travel(25)")
    ready(tab, 25)
    assert drawn(tab) == told(source.as_of(25))
    assert tab.named("drift") == ["20"]
    assert tab.value("document.getElementById('state').textContent") == "as of entry 25"
    source.history.hear(closed(61, [("plant-1", 500)]))
    tab.until("document.getElementById('slider').max === '61'")
    assert drawn(tab) == told(source.as_of(25))  # what comes meanwhile changes nothing

    tab.value("document.getElementById('live').click()")
    ready(tab, 61)
    assert drawn(tab) == told(source.now()[1])


def test_the_page_follows_the_federation_without_being_loaded_again(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    tab.value("window.same = true")
    source.history.hear(closed(61, [("plant-1", 500)], correct=100))
    source.history.hear(left("plant-2"))
    ready(tab, 61)
    tab.until("document.querySelector('[data-name=clients]').dataset.value === '2'")
    assert drawn(tab) == told(source.now()[1])
    assert tab.value("window.same")
    assert tab.value("chart.data[1].length") == 61


def test_the_updates_of_an_entry_are_told_down_to_their_positions(tab, url):
    tab.open(url)
    ready(tab, 60)
    tab.value("document.querySelector('[aria-label=\"3 updates of entry 58\"]').click()")
    cells = "[...document.querySelectorAll('#update-table tbody tr:first-child td')].map(e => e.textContent)"
    tab.until("document.getElementById('updates').open")
    assert tab.value(cells) == ["plant-1", "11", "0", "0.455", "0.364", "r.plant-1/0 5,800 – 5,810"]


def test_a_card_has_every_candidate_with_its_score_and_stays_open(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    card = "document.querySelector('#drifts article.restart details')"
    tab.value(f"{card}.querySelector('summary').focus()")
    tab.value(f"{card}.querySelector('summary').click()")
    rows = f"[...{card}.querySelectorAll('tbody tr')].map(e => e.textContent)"
    assert tab.value(rows) == [
        "an untrained model (scratch)0.250chosen",
        "the model of an earlier epoch (recall-1)0.500",
        "the same model as before (incumbent)0.750",
    ]
    source.history.hear(drifted(61, "latched", ("plant-3",)))
    tab.until("document.querySelectorAll('#drifts article').length === 3")
    assert tab.value(f"{card}.open") is True
    assert tab.value(f"document.activeElement === {card}.querySelector('summary')") is True


def test_clients_have_how_good_their_predictions_were_and_the_worst_can_come_first(tab, url, source):
    told = [accepted("plant-1", 20, measured=(18.0, 5.0)), accepted("plant-3", 20, measured=(2.0, 15.0))]
    for n in range(61, 81):
        source.history.hear(closed(n, told, correct=20, no_change=20.0))
    tab.open(url)
    ready(tab, 80)
    values = dict(zip(tab.column("client-table", 1), tab.named("client-value"), strict=True))
    assert (values["plant-1"], values["plant-3"]) == ("0.9", "0.1")
    assert tab.column("client-table", 4)[tab.column("client-table", 1).index("plant-3")] == "0.750"
    assert tab.column("client-table", 1)[0] == "plant-2"  # it has missed rounds
    tab.value("document.getElementById('order').value = 'worst'")
    tab.value("document.getElementById('order').dispatchEvent(new Event('input'))")
    assert tab.column("client-table", 1)[0] == "plant-3"
    source.history.hear(left("plant-3"))
    tab.until("document.querySelector('[data-name=clients]').dataset.value === '2'")
    assert tab.column("client-table", 1) == ["plant-2", "plant-1", "plant-3"]
    assert "accuracy lately 0.900" in tab.value("document.querySelector('#clients li').title").lower()


def test_the_page_shows_names_of_anybody_as_text(tab, source, url):
    hostile = (IMAGE, "</script><script>document.title='owned'</script>", "javascript:alert(1)")
    made = PageSource(
        IMAGE, heard(*federation(names=hostile), refused(IMAGE, IMAGE), restarted(60, 3, labels=(IMAGE,)))
    )
    made.letters.add(LoggedDeadLetter(IMAGE, 0, 7, IMAGE, 1_700_000_000_000))
    with shown(made, "0") as there:
        tab.said.clear()
        tab.open(there)
        ready(tab, 60)
        assert tab.value("document.querySelectorAll('img, iframe, object').length") == 0
        assert tab.value("document.querySelectorAll('script').length") == 2
        assert tab.value("document.title").startswith("<img")
        assert IMAGE in tab.value("document.getElementById('client-table').textContent")
        assert IMAGE in tab.value("document.getElementById('drifts').textContent")
        assert drawn(tab) == told(made.now()[1])
        assert tab.said == []  # no error, and nothing that the policy has stopped


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True), (2560, False)])
def test_the_page_fits_small_and_large_screens(tab, url, width, dark):
    tab.open(url, width, 900, dark=dark)
    ready(tab, 60)
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value("chart.width") <= width
    background = tab.value("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(14, 19, 25)" if dark else "rgb(244, 246, 248)")


def test_the_page_can_be_used_without_eyes_or_a_mouse(tab, url):
    tab.open(url)
    ready(tab, 60)
    assert tab.value("document.getElementById('spoken').getAttribute('aria-live')") == "polite"
    for told_in in ("summary", "spoken"):
        assert "accuracy 0.75" in tab.value(f"document.getElementById('{told_in}').textContent")
    rows = tab.value("document.querySelectorAll('#rounds tbody tr').length")
    assert rows == 60
    unnamed = "[...document.querySelectorAll('button, input, select, section')].filter(e => !("
    unnamed += "e.labels?.length || e.matches('button') && e.textContent.trim() || "
    unnamed += "e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))).length"
    assert tab.value(unnamed) == 0
    tab.value("document.getElementById('slider').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    ready(tab, 59)
    assert tab.value("location.hash") == "#entry=59"


def test_an_address_with_an_entry_opens_there(tab, url, source):
    tab.open(f"{url}#entry=12")
    ready(tab, 12)
    assert drawn(tab) == told(source.as_of(12))
    assert tab.value("document.getElementById('entry').value") == "12"


def text(tab, there):
    return tab.value(f"document.getElementById('{there}').textContent")


def test_a_link_to_an_entry_that_is_not_held_yet_shows_the_present_and_says_so_until_it_is(tab, url, source):
    tab.open(f"{url}#entry=62")
    ready(tab, 60)
    assert text(tab, "state") == "live: the page does not have entry 62"
    assert drawn(tab) == told(source.now()[1])
    for n in (61, 62, 63):
        source.history.hear(closed(n, [("plant-1", n)]))
    ready(tab, 62)
    assert text(tab, "state") == "as of entry 62"
    tab.value("location.hash = '#entry=12'")
    ready(tab, 12)
    assert text(tab, "state") == "as of entry 12"


@pytest.mark.parametrize(
    ("asked", "said"), [("999", "the page does not have entry 999"), ("1.5", "no such entry"), ("-3", "no such")]
)
def test_an_entry_that_cannot_be_had_leaves_the_present_and_says_why(tab, url, source, asked, said):
    tab.open(url)
    ready(tab, 60)
    tab.value(f"travel({asked})")
    tab.until(f"document.getElementById('state').textContent.startsWith('live: {said}')")
    source.history.hear(closed(61, [("plant-1", 500)]))
    ready(tab, 61)
    assert drawn(tab) == told(source.now()[1])
    tab.value("document.getElementById('live').click()")
    assert text(tab, "state") == "live"


def test_a_federation_of_which_nothing_is_heard_is_called_stalled_and_not_live(tab, url, source):
    source.clock = time.time
    tab.open(url)
    ready(tab, 60)
    assert text(tab, "state") == "stalled"
    assert text(tab, "story").startswith("Stalled: no entry has come since 2023-")
    source.clock = lambda: 0.0
    tab.until("document.getElementById('state').textContent === 'live'")
    assert text(tab, "story").startswith("All is well: 3 clients")


def test_the_report_of_a_run_is_drawn_by_the_same_script_and_nothing_else_runs(tab, made_up, tmp_path):  # noqa: F811
    """The one document that needs no server, with text of others in it."""
    result = made_up(at=[32], source=IMAGE, missing={IMAGE: 1})
    path = tmp_path / "report.html"
    path.write_text(render(result, drifts=[31], title=IMAGE), encoding="utf-8")
    tab.said.clear()
    tab.open(path.as_uri())
    ready(tab, 103)
    assert tab.value("chart.data[0].length") == 103
    assert tab.named("drift") == ["32"]
    assert IMAGE in text(tab, "tables")
    assert tab.value("document.querySelectorAll('img').length") == 0
    assert tab.value("document.title") == f"{IMAGE} · streamfl"
    assert tab.value("[...document.querySelectorAll('[data-of]')].every((part) => part.hidden)")
    assert tab.said == []


def test_a_log_that_does_not_answer_is_not_called_live(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    assert text(tab, "state") == "live"
    assert "ago" in text(tab, "age")
    source.status = lambda: {"silent_since": "2023-11-14T22:13:21Z"}
    tab.until("document.getElementById('state').textContent === 'the log does not answer'")
    assert "has not answered since 2023-11-14T22:13:21Z" in text(tab, "reading")
    source.status = lambda: {"silent_since": ""}
    tab.until("document.getElementById('state').textContent === 'live'")


def test_a_button_keeps_the_focus_when_rounds_close(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    tab.value("document.querySelector('[data-name=updates-58]').focus()")
    source.history.hear(closed(61, [("plant-1", 500)]))
    ready(tab, 61)
    assert tab.value("document.activeElement.dataset.name") == "updates-58"


def test_the_last_rounds_stay_the_last_rounds(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    window = "[chart.scales.x.min, chart.scales.x.max].map((x) => drawn.rounds[places.indexOf(x)][1])"
    assert tab.value(window) == [1, 60]
    tab.value("choose('20')")
    tab.until(f"String({window}) === '41,60'")
    source.history.hear(closed(61, [("plant-1", 500)]), time=1_700_100_000_000)
    tab.until(f"String({window}) === '42,61'")
    tab.value("document.querySelector('[data-last=\"\"]').click()")
    tab.until(f"String({window}) === '1,61'")
    assert tab.value("document.querySelectorAll('[aria-pressed=true]').length") == 1


def test_a_page_that_nobody_sees_keeps_no_connection(tab, url, source):
    tab.open(url)
    ready(tab, 60)
    hide = "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}}); seen()"
    tab.value(hide.format("true"))
    assert tab.value("stream") is None
    source.history.hear(closed(61, [("plant-1", 500)]))
    tab.value(hide.format("false"))
    ready(tab, 61)
    assert drawn(tab) == told(source.now()[1])


def test_of_a_thousand_clients_those_with_trouble_come_first_and_any_can_be_found(tab):
    names = [f"client-{n:04}" for n in range(1000)]
    everybody = [closed(n, [(name, 10) for name in names if name != "client-0500"]) for n in (1, 2)]
    out = [refused("client-0007", "a loss of NaN", evicted=True), opened(3), refused("client-0600", "a loss of NaN")]
    made = PageSource("forest", heard(*map(joined, names), opened(1), *everybody, *out))
    with shown(made, "0") as there:
        tab.open(there)
        ready(tab, 2)
        column = "[...document.querySelectorAll('#client-table tbody td:first-child')].map(e => e.textContent)"
        assert tab.value(column)[:3] == ["client-0007", "client-0600", "client-0500"]
        assert tab.value("document.querySelectorAll('#client-table caption').length") == 1
        tab.value("document.getElementById('find').value = 'CLIENT-099'")
        tab.value("document.getElementById('find').dispatchEvent(new Event('input'))")
        assert tab.value(column) == names[990:]
        marks = "getComputedStyle(document.querySelector('#clients li.refused'), '::after').content"
        assert tab.value(marks) == '"×"'


def test_large_targets_fit_beside_the_chart(tab):
    served = Served(records=10, absolute_error=3e7, no_change=9e7)
    with shown(
        PageSource("forest", heard(opened(1), *(closed(n, [("a", 10)], served=served) for n in (1, 2)))), "0"
    ) as there:
        tab.open(there)
        ready(tab, 2)
        assert "Mean absolute error" in text(tab, "headline")
        assert "3,000,000" in text(tab, "headline")
        assert tab.value("chart.bbox.left / devicePixelRatio") > 70
