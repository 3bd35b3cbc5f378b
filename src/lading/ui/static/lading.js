// Small conveniences over pages that work without them: charts, choosing a table, copying, what is live.
"use strict";

function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawChart(box) {
  const times = box.dataset.times.split(" ").filter(Boolean).map(Number);
  const rows = box.dataset.rows.split(" ").filter(Boolean).map(Number);
  box.replaceChildren();
  if (times.length < 2) {
    box.classList.add("is-flat");
    box.textContent = times.length ? "One snapshot so far." : "No snapshots yet.";
    return;
  }
  const last = times.length - 1;
  times.push(times[last] + (times[last] - times[0]) * 0.04);  // so that the last step can be seen
  rows.push(rows[last]);
  const axis = { stroke: token("--soft"), grid: { show: false }, ticks: { show: false }, font: "11px system-ui", size: 22 };
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  new uPlot({
    width: box.clientWidth, height: 110, padding: [6, 4, 0, 0],
    cursor: { show: false }, legend: { show: false },
    scales: { y: { range: (_, low, high) => [Math.min(low, high) * 0.9, high * 1.05 || 1] } },
    axes: [
      { ...axis, space: 90, values: [[31536000, "{YYYY}"], [2419200, "{MMM} {YYYY}"], [86400, "{D} {MMM}"], [3600, "{D} {MMM} {HH}:{mm}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"], [0.001, "{HH}:{mm}:{ss}"]].map(([span, text]) => [span, text, null, null, null, null, null, null, 1]) },
      { ...axis, size: 46, space: 26, values: (_, values) => values.map((one) => short.format(one)) },
    ],
    series: [{}, { stroke: token("--accent"), fill: token("--accent-soft"), width: 1.5, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
  }, [times, rows], box);
}

function drawCharts() {
  document.querySelectorAll(".chart[data-rows]").forEach(drawChart);
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-auto]");
  if (form) form.requestSubmit();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(button.dataset.copy).then(() => {
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  });
});

// What was asked for by a click is read on from there.
document.addEventListener("htmx:afterSettle", (event) => {
  drawCharts();
  const target = document.getElementById(event.detail.target.id);
  if (target && target.hasAttribute("data-focus")) target.focus();
});

// What could not be brought into the page says why on a page of its own.
document.addEventListener("htmx:responseError", ({ detail }) => {
  if (detail.requestConfig.verb === "get") location.assign(detail.pathInfo.finalRequestPath);
});

// What a run under way tells, in the header, and to whoever listens on the page as the event `lading`.
function listen() {
  const live = document.getElementById("live");
  if (!live) return;
  const phase = {};
  const source = new EventSource(live.dataset.events);
  const show = (text, busy) => { live.textContent = text; live.classList.toggle("is-busy", busy); };
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (event.event === "run started") show("Run started", true);
    if (event.event === "phase") { phase[event.table] = event.phase; show(`${event.table}: ${event.phase}`, true); }
    if (event.event === "progress" && event.table) show(`${event.table}: ${phase[event.table] || ""} · ${event.text}`, true);
    if (event.event === "run finished") show("Run finished", false);
    const ended = event.event === "run finished" || event.event === "run failed";
    if (ended || event.event === "run started") document.querySelectorAll("[data-idle]").forEach((one) => { one.disabled = !ended; });
    if (ended) document.querySelectorAll("[data-refresh]").forEach((one) => {
      htmx.ajax("GET", location.href, { target: `#${one.id}`, select: `#${one.id}`, swap: "outerHTML" });
    });
    if (event.event === "run failed") show("Run failed", false);
    document.dispatchEvent(new CustomEvent("lading", { detail: event }));
  };
  addEventListener("pagehide", () => source.close());
}

// A run as it happens, on the page of runs: a line a table, with its phase and how far it is.
function watchRun() {
  const box = document.getElementById("progress");
  if (!box) return;
  const steps = document.getElementById("steps");
  const outcome = document.getElementById("outcome");
  const line = (table) => {
    const there = [...steps.children].find((one) => one.dataset.table === table);
    if (there) return there;
    const item = document.createElement("li");
    item.dataset.table = table;
    const name = Object.assign(document.createElement("span"), { className: "name", textContent: table });
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", `Progress of ${table}`);
    const now = Object.assign(document.createElement("span"), { className: "now" });
    item.append(name, bar, now);
    steps.append(item);
    return item;
  };
  const say = (table, words, done, total) => {
    const item = line(table);
    item.querySelector(".now").textContent = words;
    const bar = item.querySelector("progress");
    if (total) { bar.max = total; bar.value = done; } else if (words === "done") { bar.max = 1; bar.value = 1; } else bar.removeAttribute("value");
  };
  document.addEventListener("lading", ({ detail: event }) => {
    if (event.event === "run started") { steps.replaceChildren(); outcome.textContent = ""; box.hidden = false; }
    if (event.event === "phase") {
      box.hidden = false;
      line(event.table).dataset.phase = event.phase;
      say(event.table, event.phase);
    }
    if (event.event === "progress" && event.table) {
      const phase = line(event.table).dataset.phase || "";
      const count = event.done !== null && event.total ? ` ${event.done.toLocaleString("en")} of ${event.total.toLocaleString("en")}` : event.done !== null ? ` ${event.done.toLocaleString("en")}` : "";
      say(event.table, `${phase} · ${event.text}${count}`, event.done, event.total);
    }
    if (event.event === "run finished" || event.event === "run failed") {
      const errors = (event.tables || [event]).filter((one) => one.error).map((one) => one.error);
      outcome.className = errors.length ? "failed-words" : "";
      outcome.textContent = errors.length ? errors.map((one) => `${one.message} ${one.hint ? `(${one.hint})` : ""}`).join(" · ") : "Done.";
    }
  });
}

watchRun();
drawCharts();
document.querySelector(".pages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });  // on a phone
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawCharts, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
listen();
