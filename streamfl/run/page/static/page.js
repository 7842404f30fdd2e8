"use strict";
// The live page, and the report of a run, which has its data in itself. Whoever made them sends texts and numbers; here
// they are put in their places, always as text: names come from whoever writes to the log, or from a file.

const ROWS = new Set(["clients", "rounds"]);
const DENSE = 240; // clients from which on the grid has squares without names
const LISTED = 300; // rows of a table
const NAME = 14; // characters of a name in the grid: its end, where names of one federation differ
const MISSING = "–";
const RETRY = 5000; // milliseconds between two questions where no stream can be had
const TIME = 7; // where in a round its time is, in milliseconds
const PACE = 12; // where in a client's row how many of its records are learnt a second is, and then how many wait
const VALUE = 9; // where in a client's row how good its predictions were is
const MEASURES = { accuracy: "Accuracy", error: "Mean absolute error" };
const SPEAK = 10000; // milliseconds between two sentences for a screen reader
const $ = (id) => document.getElementById(id);

let live = {}; // the sections as they are now
let drawn = {}; // the sections that are on the page
let past = null; // the entry that the page is of; null is now
let wanted = null; // the entry of the address, which is not held yet
let failed = ""; // why the page is not of the entry that was asked for last
let stream = null;
let window_ = ""; // how many rounds the chart shows: "" is all
let spoken = 0; // when a screen reader was last told something
let asked = 0; // how many views of the past were asked for
let chart = null;
let marks = [];
let places = []; // where on the axis each point is: its round, or its time in seconds

// --- words ---------------------------------------------------------------------------------------------------------

const count = (n) => (n === null || n === undefined ? MISSING : n.toLocaleString("en-US"));
const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
const share = (x) => (x === null || x === undefined ? MISSING : x.toFixed(3));
function quantity(x) {
  if (x === null || x === undefined) return MISSING;
  return Math.abs(x) >= 1e4 && Math.abs(x) < 1e9 ? Math.round(x).toLocaleString("en-US") : String(Number(x.toPrecision(4)));
}
const listed = (names, of, most = 8) => {
  const shown = names.slice(0, most).join(", ") || MISSING;
  return of > Math.min(most, names.length) && names.length ? `${shown} and ${count(of - Math.min(most, names.length))} more` : shown;
};
const measured = (x, measure) => (measure === "error" ? quantity(x) : share(x));
const clock = (at) => (at ? new Date(at).toISOString().slice(0, 19).replace("T", " ") : MISSING);
const ending = (name, most) => (name.length <= most ? name : `…${name.slice(1 - most)}`);
const ends = (names) => names.map((name) => ending(name, 20));
const span = ([partition, first, end]) => `${partition} ${count(first)} – ${count(end - 1)}`;

// --- elements ------------------------------------------------------------------------------------------------------

function make(tag, { text, name, value, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name !== undefined) made.dataset.name = name;
  if (value !== undefined) made.dataset.value = value === null ? "" : String(value);
  for (const [key, one] of Object.entries(attributes)) if (one) made.setAttribute(key === "kind" ? "class" : key, one);
  made.append(...children);
  return made;
}

// A cell is a text, a node, or a text with how it is marked and how dark it is.
function cell(one, kind, head) {
  if (one instanceof Node) return make("td", { kind, "data-head": head }, one);
  if (typeof one === "string") return make("td", { text: one, kind, "data-head": head });
  const made = make("td", { text: one.text, kind: `${kind} ${one.kind ?? ""}`, title: one.full, "data-head": head });
  if (one.part !== undefined) made.style.setProperty("--part", one.part);
  return made;
}

function tabled(heads, rows, empty) {
  const names = heads.map((head) => head.replace(/^#/, ""));
  const kinds = heads.map((head) => (head.startsWith("#") ? "number" : ""));
  const head = make("tr", {}, ...names.map((text, i) => make("th", { text, scope: "col", kind: kinds[i] })));
  const body = rows.map((row) => make("tr", {}, ...row.map((one, i) => cell(one, kinds[i], names[i]))));
  if (!rows.length) body.push(make("tr", {}, make("td", { text: empty, colspan: String(heads.length) })));
  return [make("thead", {}, head), make("tbody", {}, ...body)];
}

const table = (id, ...parts) => $(id).replaceChildren(...tabled(...parts));

// --- sections ------------------------------------------------------------------------------------------------------

function card({ title, text, note, name, value, kind, full }) {
  const parts = [make("dt", { text: title }), make("dd", { text, name, value, kind, title: full })];
  if (note) parts.push(make("dd", { text: note, kind: "note" }));
  return make("div", {}, ...parts);
}

// A button that is drawn again keeps the focus.
function keepingFocus(drawing) {
  const { name } = document.activeElement?.dataset ?? {};
  drawing();
  if (name && document.activeElement === document.body) document.querySelector(`[data-name="${CSS.escape(name)}"]`)?.focus({ preventScroll: true });
}

function headline(h) {
  const words = MEASURES[h.measure];
  $("measure").textContent = words.toLowerCase();
  $("chart").setAttribute("aria-label", `${words} and NoChange by round; the table below has the numbers`);
  $("summary").textContent = h.summary;
  $("summary").dataset.entry = h.entry;
  if (h.entry) speak(h.summary);
}

// Whether all is well; of a run, what happened.
const story = (lines) => $("story").replaceChildren(...lines.map(([text, kind]) => make("li", { text, kind })));

// Tables that are only in a report.
function tables(all) {
  const made = all.map(({ title, heads, rows, note, is_wide }) => {
    const id = `h-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
    // On a narrow screen the rows of a table with texts stand one below the other.
    const hasTexts = heads.slice(1).some((one) => !one.startsWith("#"));
    const body = make("table", { kind: `${hasTexts ? "stack" : ""} ${heads.some((one) => one) ? "" : "plain"}` }, ...tabled(heads, rows, ""));
    return make("section", { "aria-labelledby": id, kind: is_wide ? "whole" : "" }, make("h2", { text: title, id }), make("div", { kind: "wide-table", tabindex: "0", role: "region", "aria-labelledby": id }, body), ...(note ? [make("p", { text: note, kind: "note" })] : []));
  });
  $("tables").replaceChildren(...made);
}

// A screen reader hears of an entry once, and not of each where they come quickly.
function speak(text) {
  if (past === null && Date.now() - spoken < SPEAK) return;
  if ($("spoken").textContent === text) return;
  $("spoken").textContent = text;
  spoken = Date.now();
}

// How old the last entry is, by the clock of this browser.
function age() {
  const at = Date.parse(drawn.headline?.time ?? "");
  const seconds = (Date.now() - at) / 1000;
  const shown = past === null && Number.isFinite(at) && seconds >= 5 && !drawn.headline.ended;
  const [n, unit] = seconds < 120 ? [Math.round(seconds), "second"] : seconds < 7200 ? [Math.round(seconds / 60), "minute"] : seconds < 172800 ? [Math.round(seconds / 3600), "hour"] : [Math.round(seconds / 86400), "day"];
  $("age").textContent = shown ? `last entry ${counted(n, unit)} ago` : "";
}

function rounds(points, h) {
  const last = points.slice(-LISTED).reverse();
  const timed = last.some((one) => one[TIME]);
  table("rounds", ["#round", "#epoch", "#records", `#${h.measure}`, "#NoChange", ...(timed ? ["time (UTC)"] : [])],
    last.map(([first, end, , epoch, records, value, naive, at]) => [
      first === end ? count(end) : `${count(first)} – ${count(end)}`, count(epoch), count(records), measured(value, h.measure), measured(naive, h.measure), ...(timed ? [clock(at)] : [])]),
    "no round has closed");
  draw(points, h);
}

// The candidates of a card, the best first; a table that somebody has opened stays open when the card is drawn again.
function candidates(one, open) {
  if (!one.candidates.length) return [];
  const isRestart = one.kind === "restart";
  const heads = ["candidate", isRestart ? "#loss (lower is better)" : "#gain over the model of all clients (higher is better)", "chosen"];
  const rows = one.candidates.map(([name, value, words]) => [words ? `${words} (${name})` : name, make("span", { text: share(value), name: "candidate", value }), name === one.chosen ? "chosen" : ""]);
  const name = `candidates-${one.kind}-${one.round}-${one.entry}`;
  const some = one.of_candidates > rows.length ? `, the best ${count(rows.length)}` : "";
  const summary = make("summary", { text: `${counted(one.of_candidates, "candidate")} with ${isRestart ? "their losses" : "their gains"}${some}`, name });
  return [make("details", { open: open.has(name) ? "open" : "" }, summary, make("table", {}, ...tabled(heads, rows, "")))];
}

// Where the values of a feature lay before and since, as bars of two colours, each stretch by its largest.
function histogram([feature, before, since, low, high, ...counts]) {
  const bars = counts.map((of, i) => {
    const most = Math.max(1, ...of);
    const row = make("div", { kind: i ? "bars since" : "bars" }, ...of.map((n) => make("i", { title: count(n) })));
    of.forEach((n, at) => (row.children[at].style.height = `${(100 * n) / most}%`));
    return row;
  });
  const ends = make("div", { kind: "ends" }, make("span", { text: low }), make("span", { text: high }));
  return make("figure", { kind: "histogram", role: "img", "aria-label": `${feature}: mean ${before} before, ${since} since` },
    make("figcaption", { text: `${feature}: on average ${before} before (above), ${since} since (below)` }), ...bars, ends);
}

function drifts(cards) {
  const open = new Set([...document.querySelectorAll("#drifts details[open] > summary")].map((one) => one.dataset.name));
  const shown = cards.map((one) => {
    const facts = [];
    const fact = (term, text, title) => text && facts.push(make("dt", { text: term }), make("dd", { text, title }));
    fact("since", `round ${count(one.since)}${one.began ? `, ${one.began}` : ""}`);
    fact("found", `round ${count(one.round)}${one.found ? `, ${one.found}` : ""}`, one.entry ? `entry ${count(one.entry)}` : "");
    if (one.kind !== "notice") fact("clients", one.of_clients ? listed(ends(one.clients), one.of_clients) : one.kind === "inputs moved" ? "all" : "certain for no single client", one.clients.join(", "));
    fact("labels", one.of_labels ? listed(one.labels, one.of_labels) : "");
    fact("why", one.evidence, one.cause ? `detector ${one.cause}` : "");
    for (const { state, round, words } of one.states) fact(`round ${count(round)}`, words || state, state);
    fact(one.kind === "restart" ? "epoch begins with" : "own model began as", one.chosen_words || one.chosen, one.chosen);
    fact("online models", one.online_models_begin_again ? "begin again untrained" : "");
    fact("imposed drift", one.imposed);
    fact("where", one.places.slice(0, 3).map(([name, ...positions]) => span([...ends([name]), ...positions])).join("; "), one.places.map(span).join("; "));
    fact("same drift", one.drift && one.drift < one.round ? `as reported in round ${count(one.drift)}` : "");
    const kind = { restart: "restart", "local drift": "local", notice: "notice" }[one.kind] ?? "notice";
    const title = one.kind === "restart" ? `${one.title}: epoch ${count(one.epoch)}` : one.title;
    return make("article", { kind, name: "drift", value: one.round },
      make("div", { kind: "bar" }, make("h3", { text: title }), make("span", { text: `round ${count(one.round)}`, kind: "note" })),
      make("p", { text: one.sentence, kind: "sentence" }), make("dl", { kind: "facts" }, ...facts), ...(one.moved ?? []).map(histogram), ...candidates(one, open));
  });
  if (!shown.length) shown.push(make("p", { text: "No drift has been found.", kind: "note" }));
  $("drifts").replaceChildren(...shown);
}

function standing([, state, learnt, missed, , , refused, , refusedIn]) {
  if (state === "evicted" || (state === "present" && refused && refusedIn > learnt)) return "refused";
  if (state !== "present") return "gone";
  if (missed >= 3) return "missed-3";
  if (missed >= 1) return "missed-1";
  return "";
}

function told([name, state, learnt, missed, records, rejected, refused, reason, , value, naive, rejectedLabels, pace, unread, unlearnt], measure) {
  const parts = [`${name}: ${state}`, learnt ? `last learnt in round ${count(learnt)}` : "nothing learnt yet", `${counted(records, "record")}, ${count(rejected)} rejected`];
  if (value !== null) parts.push(`${MEASURES[measure]} lately ${measured(value, measure)}, NoChange ${measured(naive, measure)}`);
  if (pace !== null) parts.push(`${quantity(pace)} records a second lately`);
  if (unlearnt !== null && unread === null) parts.push(`about ${counted(unlearnt, "record")} waiting; how many of them a host has read is not known`);
  else if (unlearnt !== null) parts.push(`about ${count(unread)} records not read yet, ${count(unlearnt)} read and not learnt yet`);
  if (missed) parts.push(`${counted(missed, "round")} missed`);
  if (refused) parts.push(`${counted(refused, "message")} refused: ${reason}`);
  if (rejectedLabels) parts.push(rejectedLabels);
  return parts.join("\n");
}

function clients(rows, h) {
  const dense = rows.length > DENSE;
  $("clients").className = dense ? "grid dense" : "grid";
  const grid = rows.map((row) => {
    const [name, state, learnt, missed, records] = row;
    const kind = standing(row);
    const well = row[VALUE] === null ? `round ${count(learnt)}` : measured(row[VALUE], h.measure);
    const below = state !== "present" ? state : kind === "refused" ? "refused" : missed ? `${count(missed)} missed` : learnt ? well : "waiting";
    return make("li", { kind, title: told(row, h.measure), name: "client", value: records }, make("b", { text: ending(name, NAME) }), make("span", { text: below }));
  });
  $("clients").replaceChildren(...grid);
  $("healthy").textContent = !dense && rows.some((row) => row[VALUE] !== null) ? `in the last round, with its ${h.measure} lately` : "in the last round";
  const states = {};
  for (const [, state] of rows) states[state] = (states[state] ?? 0) + 1;
  const parts = Object.entries(states).map(([state, n]) => `${count(n)} ${state}`);
  if (h.others) parts.push(`${counted(h.others, "update")} of clients beyond the first 10,000`);
  if (h.strangers) parts.push(`${counted(h.strangers, "message")} of unknown clients refused: ${h.strangers_reason}`);
  $("clients-note").textContent = parts.join(", ") || "no client has joined";
  clientTable(rows, h);
}

const ORDER = ["refused", "missed-3", "missed-1", "", "gone"];

// Those with trouble first; or those that are worst beside NoChange, of errors as a ratio since targets have units, and
// clients that are gone after all others.
function sorted(rows, measure) {
  const order = (row) => ORDER.indexOf(standing(row));
  const isGone = (row) => Number(standing(row) === "gone");
  const badness = (row) => {
    const [value, naive] = row.slice(VALUE);
    if (value === null) return -Number.MAX_VALUE;
    return measure === "error" ? value / Math.max(naive, Number.MIN_VALUE) : naive - value;
  };
  const worse = (a, b) => isGone(a) - isGone(b) || Math.sign(badness(b) - badness(a));
  const missing = (a, b) => order(a) - order(b) || (b[3] ?? 0) - (a[3] ?? 0) || b[6] - a[6];
  return rows.sort($("order").value === "worst" ? worse : missing);
}

function clientTable(rows, h) {
  const text = $("find").value.trim().toLowerCase();
  const found = rows.filter(([name]) => name.toLowerCase().includes(text));
  const shown = sorted(found, h.measure).slice(0, LISTED);
  const waits = shown.some((row) => row[PACE + 2] !== null);
  const remarks = [["last refusal", 7], ["late labels", 11]].filter(([, at]) => shown.some((row) => row[at]));
  table("client-table", ["client", "state", `#${h.measure} lately`, "#NoChange", "#last round", "#missed", "#records", "#a second lately", ...(waits ? ["#not read", "#not learnt"] : []), "#rejected", "#refused", ...remarks.map(([head]) => head)],
    shown.map((row) => {
      const [name, state, learnt, missed, records, rejected, refused, , , value, naive] = row;
      return [name, state, make("span", { text: measured(value, h.measure), name: "client-value", value }), measured(naive, h.measure),
        learnt ? count(learnt) : MISSING, count(missed), count(records), quantity(row[PACE]), ...(waits ? row.slice(PACE + 1).map(count) : []), count(rejected), count(refused), ...remarks.map(([, at]) => row[at])];
    }),
    rows.length ? "no client has this in its name" : "no client has joined");
  if (found.length > LISTED) $("client-table").prepend(make("caption", { text: `the first ${count(LISTED)} of ${count(found.length)}` }));
}

function letters(kinds, about) {
  table("letters", ["reason", "#letters", "what to do", "newest message"],
    kinds.map((one) => [make("div", { text: one.reason, kind: "reason", title: one.reason }), make("span", { text: count(one.count), name: "letters", value: one.count }), one.remedy, one.example]),
    about.letters_readable === false ? "This page's log-in may not read them; grant it READ on the dead-letter topic." : "none");
  const before = about.letters_before;
  $("letters-note").textContent = before ? `${counted(before, "older letter")} not counted.` : "";
}

function ledger(lines) {
  const remarked = lines.some((line) => line[10]);
  table("ledger", ["#entry", "#round", "#epoch", "#records", "#rejected", "#refused", "updates", "#loss", "model", "closed", ...(remarked ? ["remarks"] : [])],
    lines.map(([entry, round, epoch, records, rejected, refused, of, loss, model, time, remarks]) => {
      const button = make("button", { text: `${count(of)}`, type: "button", name: `updates-${entry}`, "aria-label": `${counted(of, "update")} of entry ${entry}` });
      button.addEventListener("click", () => updates(entry));
      return [count(entry), records ? count(round) : `${count(round)}, no records`, count(epoch), make("span", { text: count(records), name: `entry-${entry}`, value: records }),
        count(rejected), count(refused), button, share(loss), model.slice(0, 12), time, ...(remarked ? [remarks] : [])];
    }),
    "no entry");
  for (const row of $("ledger").querySelectorAll("tbody tr")) row.children[8]?.classList.add("code");
}

async function updates(entry) {
  const reply = await fetch(`entry?entry=${entry}`).catch(() => null);
  const found = (await answered(reply)) ?? { error: REFUSED };
  $("h-updates").textContent = reply?.ok ? `Entry ${count(entry)}: ${counted(found.updates.length, "update")}` : found.error;
  const { measure } = drawn.headline;
  table("update-table", ["client", "#records", "#rejected", `#${measure}`, "#NoChange", "partition, first and last position"],
    (found.updates ?? []).slice(0, LISTED).map(([client, records, rejected, spans, value, naive]) => [
      client, count(records), count(rejected), measured(value, measure), measured(naive, measure), spans.map(span).join("; ")]),
    "no update");
  if (found.updates?.length > LISTED) $("update-table").prepend(make("caption", { text: `the first ${LISTED} of ${count(found.updates.length)}` }));
  $("updates").showModal();
}

function epochs(all, branches) {
  if (!all.length) return $("epochs").replaceChildren(make("p", { text: "No round has been opened.", kind: "note" }));
  const first = all[0].first;
  const end = Math.max(...all.map((one) => one.last), ...branches.map((one) => one.last ?? 0)) + 1;
  const put = (node, from, to) => {
    node.style.left = `${(100 * Math.max(0, from - first)) / (end - first)}%`;
    node.style.width = `${(100 * Math.max(0, to - Math.max(from, first))) / (end - first)}%`;
    return node;
  };
  const row = all.map((one, i) => {
    const until = i + 1 < all.length ? all[i + 1].first : end;
    const why = one.cause ? `, after an alarm of ${one.cause}, began with ${one.chosen}` : "";
    const title = `epoch ${count(one.epoch)}: rounds ${count(one.first)} to ${count(until - 1)}${why}`;
    return put(make("div", { text: `${count(one.epoch)}${one.words ? ` · ${one.words}` : ""}`, kind: "span", title, name: "epoch", value: one.epoch }), one.first, until);
  });
  const apart = branches.slice(-12).map((one) => {
    const until = one.last === null ? end : Math.max(one.last, one.first + 1);
    const title = `${listed(one.clients, one.of_clients)}: ${one.state}, rounds ${count(one.first)} to ${one.last === null ? "now" : count(one.last)}`;
    return make("div", { kind: "row" }, put(make("div", { text: `${listed(ends(one.clients), one.of_clients, 3)} · ${one.state}`, kind: "span branch", title }), one.first, until));
  });
  $("epochs").replaceChildren(make("div", { kind: "row" }, ...row), ...apart,
    make("div", { kind: "axis" }, make("span", { text: `round ${count(first)}` }), make("span", { text: `round ${count(end - 1)}` })));
}

function about(a) {
  document.title = `${a.name} · streamfl`;
  $("name").textContent = a.name;
  const parts = [];
  if (a.read !== undefined && a.read < 1) parts.push(`The page is still reading the log (${Math.round(100 * a.read)}%) and shows only its last entries.`);
  if (a.unread) parts.push(`The page cannot read the federation yet: ${a.unread}.`);
  if (a.silent_since) parts.push(`The log has not answered since ${a.silent_since}; the page shows what it knew then.`);
  if (a.out_of_order) parts.push(`${counted(a.out_of_order, "message")} ignored, because they do not fit the ledger.`);
  if (a.beyond) parts.push(`${count(a.beyond)} messages of one entry are not shown, because there were too many.`);
  if (a.unusable) parts.push(`${counted(a.unusable, "message")} on the control topic cannot be messages of the coordinator, and are ignored.`);
  $("reading").textContent = parts.join(" ");
  $("reading").hidden = !parts.length;
  const most = a.last ?? 1;
  for (const input of [$("slider"), $("entry")]) {
    input.min = a.first ?? 1;
    input.max = most;
  }
  pointAt(past ?? most);
}

// Not the one that somebody is moving.
function pointAt(entry) {
  for (const input of [$("slider"), $("entry")]) if (document.activeElement !== input) input.value = entry;
}

// --- the chart -----------------------------------------------------------------------------------------------------

// The times of points in seconds, none before the one to its left.
function rising(points) {
  let last = -Infinity;
  return points.map((one) => (last = Math.max(last, one[TIME] / 1000)));
}

// Where on the axis a round is; null if it is not in the chart.
function place(round) {
  const points = drawn.rounds ?? [];
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][1] < round) low = middle + 1;
    else high = middle;
  }
  return low < points.length && round >= points[0][0] ? places[low] : null;
}

function draw(points, h) {
  places = points.map((one) => one[1]);
  const timed = points.length > 1 && points.every((one) => one[TIME]);
  if (timed) places = rising(points);
  const x = places;
  const data = [x, points.map((one) => one[6]), points.map((one) => one[5])];
  const measure = h.measure;
  if (chart && chart.measure === measure && chart.timed === timed) {
    const { min, max } = chart.scales.x;
    const zoomed = chart.all && (min > chart.all[0] || max < chart.all[1]);
    chart.all = [x[0], x.at(-1)];
    chart.setData(data, !zoomed);
    if (window_) zoom(window_);
    else if (zoomed) chart.redraw();
    return;
  }
  chart?.destroy();
  chart = plot(data, measure, timed);
  [chart.measure, chart.timed] = [measure, timed];
  $("axis").textContent = timed ? "Times are UTC." : "";
  chart.all = [x[0], x.at(-1)];
  if (window_) zoom(window_);
}

// The ticks of an axis of times, by the seconds between them: of days and longer, of minutes, of seconds.
const TICKS = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1], [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1], [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
];

function plot(data, measure, timed) {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: css("--muted"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const line = (label, colour, width) => ({ label, stroke: css(colour), width, points: { show: (u) => u.data[0].length < 40, size: 4, fill: css(colour) }, spanGaps: true });
  const range = measure === "error" ? { auto: true, range: (u, low, high) => [0, (high ?? 1) * 1.05 || 1] } : { range: (u, low, high) => [low === null ? 0 : Math.max(0, low - 0.05), 1] };
  return new uPlot({
    ...size(),
    scales: { x: { time: timed }, y: range },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    axes: [timed ? { ...axis, size: 42, space: 70, values: TICKS } : { ...axis, size: 28, incrs: [1, 2, 5].flatMap((n) => [1, 10, 100, 1e3, 1e4, 1e5, 1e6].map((p) => n * p)).sort((a, b) => a - b) }, { ...axis, values: (u, ticks) => ticks.map((one) => (measure === "error" ? quantity(one) : String(one))), size: (u, texts) => Math.max(44, 16 + 7 * Math.max(0, ...(texts ?? []).map((text) => text.length))) }],
    series: [{ label: "round" }, line("NoChange", "--naive", 1.3), line(measure, "--model", 1.8)],
    cursor: { y: false, points: { size: 7 } },
    hooks: { draw: [drawMarks], setCursor: [(u) => hover(u, measure)] },
  }, data, $("chart"));
}

const size = () => ({ width: Math.max(200, $("chart").clientWidth), height: Math.max(120, $("chart").clientHeight) });

function drawMarks(u) {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const { left, top, width, height } = u.bbox;
  const { ctx } = u;
  ctx.save();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const { kind, round } of marks) {
    const at = place(round);
    const x = at === null ? NaN : u.valToPos(at, "x", true);
    if (!(x >= left && x <= left + width)) continue;
    ctx.strokeStyle = css({ restart: "--restart", imposed: "--naive" }[kind] ?? "--drift");
    ctx.setLineDash(kind === "restart" ? [] : [kind === "imposed" ? 1 : 4, 4].map((n) => n * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

function hover(u, measure) {
  const i = u.cursor.idx;
  const point = i === null || i === undefined ? null : drawn.rounds?.[i];
  if (!point) return ($("hover").textContent = "");
  const [first, last, , epoch, , value, naive, time] = point;
  const there = marks.filter((one) => first <= one.round && one.round <= last).map((one) => one.kind);
  $("hover").textContent = `round ${first === last ? count(last) : `${count(first)} – ${count(last)}`}, epoch ${count(epoch)}${time ? `, ${clock(time)}` : ""}: ${measured(value, measure)}, NoChange ${measured(naive, measure)}${there.length ? `, ${there.join(", ")}` : ""}`;
}

function zoom(last) {
  if (!chart || !chart.data[0].length) return;
  const x = chart.data[0];
  chart.setScale("x", { min: last ? x[Math.max(0, x.length - Number(last))] : x[0], max: x.at(-1) });
}

function choose(last) {
  window_ = last;
  for (const button of document.querySelectorAll("[data-last]")) button.setAttribute("aria-pressed", String(button.dataset.last === last));
  zoom(last);
}

// --- what is shown -------------------------------------------------------------------------------------------------

function show(sections) {
  const h = sections.headline;
  if (!h) return;
  const differs = (...names) => names.some((name) => drawn[name] !== sections[name]);
  const before = drawn;
  if (differs("about")) about(sections.about);
  if (differs("headline")) headline(h);
  if (differs("cards")) $("headline").replaceChildren(...sections.cards.map(card));
  if (differs("story")) story(sections.story);
  if (differs("tables")) tables(sections.tables ?? []);
  if (differs("drifts", "imposed")) {
    const imposed = (sections.imposed ?? []).map((round) => ({ kind: "imposed", round }));
    marks = [...imposed, ...sections.drifts.filter((one) => one.kind === "restart" || one.kind === "local drift").map((one) => ({ kind: one.kind, round: one.round }))];
    $("imposed").hidden = !imposed.length;
    drifts(sections.drifts);
  }
  for (const part of document.querySelectorAll("[data-of]")) part.hidden = !(part.dataset.of in sections);
  const redraw = differs("rounds", "drifts") || before.headline?.measure !== h.measure;
  const others = { clients: differs("clients") || differs("headline"), letters: differs("letters", "about"), ledger: differs("ledger"), epochs: differs("epochs", "branches") };
  drawn = sections;
  if (redraw) rounds(sections.rounds, h);
  if (others.clients && sections.clients) clients(sections.clients, h);
  if (others.letters && sections.letters) letters(sections.letters, sections.about);
  if (others.ledger && sections.ledger) ledger(sections.ledger);
  if (others.epochs) epochs(sections.epochs, sections.branches);
  age();
  document.body.dataset.entry = h.entry;
}

function patched(before, changes) {
  const after = { ...before };
  for (const [name, section] of Object.entries(changes)) {
    if (!ROWS.has(name)) {
      after[name] = section;
      continue;
    }
    const rows = (before[name] ?? []).slice(0, section.length);
    for (const [at, row] of Object.entries(section.rows)) rows[Number(at)] = row;
    after[name] = rows;
  }
  return after;
}

function state(kind, text) {
  $("state").dataset.state = kind;
  if ($("state").textContent !== text) $("state").textContent = text;
  document.body.classList.toggle("past", kind === "past");
}

function heard(sections) {
  live = sections;
  const { first, last } = sections.about ?? {};
  if (wanted !== null && first && first <= wanted && wanted <= last) return travel(wanted);
  if (past !== null) return about({ ...sections.about });
  present();
}

function present() {
  if (failed) state("lost", `live: ${failed}`);
  else if (wanted !== null) state("lost", `live: the page does not have entry ${count(wanted)}`);
  else if (live.about?.unread) state("lost", "waiting for the federation");
  else if (live.about?.silent_since) state("lost", "the log does not answer");
  else if (live.story?.some(([, kind]) => kind === "stalled")) state("lost", "stalled");
  else state("live", "live");
  keepingFocus(() => show(live));
}

const REFUSED = "the server does not answer now; try again";

// What the server says, also if it is not one of the page's own answers.
const answered = async (reply) => reply?.json().catch(() => ({ error: REFUSED }));

async function travel(entry) {
  const number = ++asked;
  const reply = Number.isInteger(entry) && entry > 0 ? await fetch(`view?entry=${entry}`).catch(() => null) : null;
  const found = await answered(reply);
  if (number !== asked) return;
  if (!reply?.ok) {
    [past, failed] = [null, found?.error ?? "no such entry"];
    return present();
  }
  [past, wanted, failed] = [entry, null, ""];
  history.replaceState(null, "", `#entry=${entry}`);
  pointAt(entry);
  state("past", `as of entry ${count(entry)}`);
  keepingFocus(() => show(found));
}

function now() {
  asked += 1;
  [past, wanted, failed] = [null, null, ""];
  history.replaceState(null, "", location.pathname);
  present();
}

// --- listening -----------------------------------------------------------------------------------------------------

// A browser has few connections to one server, for all tabs together: those that nobody sees keep none.
function listen() {
  if (document.hidden) return;
  stream = new EventSource("events");
  stream.addEventListener("view", (event) => heard(patched({}, JSON.parse(event.data))));
  stream.addEventListener("changes", (event) => heard(patched(live, JSON.parse(event.data))));
  stream.addEventListener("error", () => {
    if (past === null) state("lost", "no connection; trying again");
    if (stream?.readyState === EventSource.CLOSED) setTimeout(ask, RETRY);
  });
}

function seen() {
  stream?.close();
  stream = null;
  listen();
}

async function ask() {
  // The server has as many streams as it takes, or is away.
  if (stream?.readyState !== EventSource.CLOSED) return;
  const reply = await fetch("view").catch(() => null);
  const found = await answered(reply);
  if (reply?.ok && found.headline) heard(found);
  setTimeout(reply ? ask : listen, RETRY);
}

// The entry that the address names, if any.
function linked() {
  const found = /^#entry=(\d{1,15})$/.exec(location.hash);
  return found ? Number(found[1]) : null;
}

// The page of a run that is over.
function report(sections) {
  document.body.classList.add("report");
  live = sections;
  show(live);
}

function begin() {
  let pause = 0;
  const soon = (value) => {
    clearTimeout(pause);
    pause = setTimeout(() => travel(Number(value)), 120);
  };
  $("slider").addEventListener("input", (event) => {
    $("entry").value = event.target.value;
    soon(event.target.value);
  });
  $("entry").addEventListener("change", (event) => soon(event.target.value));
  $("travel").addEventListener("submit", (event) => {
    event.preventDefault();
    travel(Number($("entry").value));
  });
  $("live").addEventListener("click", now);
  for (const button of document.querySelectorAll("[data-last]")) button.addEventListener("click", () => choose(button.dataset.last));
  for (const id of ["find", "order"]) $(id).addEventListener("input", () => drawn.clients && clientTable(drawn.clients, drawn.headline));
  document.addEventListener("visibilitychange", seen);
  new ResizeObserver(() => chart?.setSize(size())).observe($("chart"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    chart?.destroy();
    chart = null;
    if (drawn.rounds) draw(drawn.rounds, drawn.headline);
  });
  const data = $("data");
  if (data) return report(JSON.parse(data.textContent));
  addEventListener("hashchange", () => linked() !== null && travel(linked()));
  setInterval(age, 5000);
  wanted = linked();
  listen();
}

begin();
