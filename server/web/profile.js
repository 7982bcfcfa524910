// The tab with the live profile: what the next steps of the model spend their
// time on, asked for again and again while the tab watches.
import { ask, el } from "./app.js";

const $ = (id) => document.getElementById(id);
let watching = null;

export function stopProfile() {
  if (!watching) return;
  watching.abort();
  watching = null;
  $("profile-run").setAttribute("aria-pressed", "false");
  $("profile-run").textContent = "Watch";
}

export async function startProfile() {
  stopProfile();
  const me = (watching = new AbortController());
  $("profile-run").setAttribute("aria-pressed", "true");
  $("profile-run").textContent = "Stop";
  $("profile-state").textContent = "waiting for steps: ask the model something…";
  while (watching === me) {
    try {
      const r = await ask("profile?steps=16", null, { signal: me.signal });
      const report = await r.json();
      if (report.phases && report.phases.length) draw(report);
    } catch (e) {
      if (e.name === "AbortError") return;
      stopProfile();
      $("profile-state").textContent = e.message;
    }
  }
}

function draw(report) {
  $("profile-state").textContent = `${report.model}, ${report.threads} threads, at ${new Date().toLocaleTimeString()}`;
  $("profile-tables").replaceChildren(...report.phases.map(table));
}

const micro = (ns) => (ns / 1000).toLocaleString(undefined, { maximumFractionDigits: 1 });
const rate = (n, ns) => (n && ns ? (n / ns).toFixed(1) : "");

function table(p) {
  const rows = [...(p.ops || []), ...(p.rest || [])].sort((a, b) => b.ns - a.ns);
  return el("table", {},
    el("caption", {}, `${p.name}: ${p.steps} steps, ${p.tokens} tokens, ${micro(p.ns / p.steps)} µs a step`),
    el("thead", {}, el("tr", {}, ...["operation", "calls", "µs a step", "share", "", "GB/s", "GMAC/s"].map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, ...rows.map((r) => el("tr", {},
      el("td", {}, r.name), el("td", {}, String(r.calls || "")), el("td", {}, micro(r.ns / p.steps)), el("td", {}, (100 * r.share).toFixed(1) + " %"),
      el("td", {}, el("meter", { value: r.share, max: 1, "aria-label": "share" })),
      el("td", {}, rate(r.bytes, r.busy_ns || r.ns)), el("td", {}, rate(r.macs, r.busy_ns || r.ns))))));
}
