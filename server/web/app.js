// The chat: messages, streaming, settings, and the view of tokens.
import { showGraph } from "./graph.js";
import { startProfile, stopProfile } from "./profile.js";

const $ = (id) => document.getElementById(id);

// el makes an element. Text always arrives as text.
export function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === "class") e.className = v;
    else if (k in e) e[k] = v;
    else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

// ask sends a request with the key, and turns an error of the API into an Error.
export async function ask(path, body, options) {
  const headers = {};
  const key = $("key").value.trim();
  if (key) headers.Authorization = "Bearer " + key;
  if (body) headers["Content-Type"] = "application/json";
  const r = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), ...options });
  if (r.ok) return r;
  let message = r.status + " " + r.statusText, code = "";
  try {
    const e = (await r.json()).error;
    message = e.message;
    code = e.code;
  } catch { /* no JSON: the status must do */ }
  if (r.status === 401) {
    $("settings").open = true;
    message += " (see API key in the settings)";
  }
  throw Object.assign(new Error(message), { code, status: r.status });
}

// ---- state

const messages = []; // {role, content, thought, tokens, error}
let model = "", chats = true, running = null;

const settings = ["system", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

function remember() {
  const kept = {};
  for (const id of settings) kept[id] = $(id).value;
  kept.tokens = $("tokens").checked;
  try { localStorage.setItem("graphrun", JSON.stringify(kept)); } catch { /* private window */ }
  try { sessionStorage.setItem("graphrun-key", $("key").value); } catch { /* the same */ }
}

function recall() {
  try {
    const kept = JSON.parse(localStorage.getItem("graphrun") || "{}");
    for (const id of settings) $(id).value = kept[id] || "";
    $("tokens").checked = !!kept.tokens;
    $("key").value = sessionStorage.getItem("graphrun-key") || "";
  } catch { /* as it is */ }
}

// sampling returns the fields of a request that the settings give.
function sampling() {
  const p = {};
  for (const id of ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"]) {
    if ($(id).value !== "") {
      if (!$(id).checkValidity()) throw new Error($(id).labels[0].firstChild.textContent + ": " + $(id).validationMessage);
      p[id] = Number($(id).value);
    }
  }
  return p;
}

// ---- showing

function draw(m) {
  const box = el("div", { class: "message " + (m.role === "user" ? "user" : "answer") + (chats ? "" : " complete") });
  box.setAttribute("data-role", m.role);
  m.box = box;
  redraw(m);
  return box;
}

function redraw(m) {
  const parts = [];
  if (m.thought) parts.push(el("details", { class: "thought", open: !m.content }, el("summary", {}, "Thinking"), el("div", {}, m.thought)));
  if ($("tokens").checked && m.tokens && m.tokens.length) parts.push(...m.tokens.map(drawToken));
  else parts.push(m.content);
  if (m.error) parts.push(el("div", { class: "error" }, m.error));
  m.box.replaceChildren(...parts);
}

// drawToken colours a token by its probability; hovering or focusing it shows
// what else could have come.
function drawToken(t) {
  const p = Math.exp(t.logprob);
  const e = el("span", { class: "token", tabIndex: 0 }, t.token);
  e.style.backgroundColor = `rgba(var(${p > 0.5 ? "--hot" : "--cold"}), ${(0.08 + 0.4 * Math.abs(2 * p - 1) * (p > 0.5 ? 0.5 : 1)).toFixed(3)})`;
  e.setAttribute("aria-label", `${JSON.stringify(t.token)}, ${percent(p)}`);
  e.graphrun = t;
  return e;
}

const percent = (p) => (100 * p).toFixed(p < 0.01 ? 2 : 1) + " %";

function showTip(e) {
  const t = e.graphrun, rows = t.top.slice();
  if (!rows.some((r) => r.token === t.token)) rows.push(t);
  rows.sort((a, b) => b.logprob - a.logprob);
  const tip = $("tip");
  tip.replaceChildren(el("table", {}, ...rows.map((r) =>
    el("tr", { class: r.token === t.token ? "chosen" : "" }, el("td", {}, JSON.stringify(r.token)), el("td", {}, percent(Math.exp(r.logprob)))))));
  tip.hidden = false;
  const at = e.getBoundingClientRect(), size = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(at.left, innerWidth - size.width - 4)) + "px";
  tip.style.top = (at.bottom + size.height + 8 < innerHeight ? at.bottom + 4 : Math.max(4, at.top - size.height - 4)) + "px";
}

const atEnd = () => $("messages").scrollHeight - $("messages").scrollTop - $("messages").clientHeight < 40;
const toEnd = () => { $("messages").scrollTop = $("messages").scrollHeight; };

function buttons() {
  $("send").hidden = !!running;
  $("stop").hidden = !running;
  $("again").disabled = !!running || !messages.some((m) => m.role === "assistant");
  $("clear").disabled = !!running || !messages.length;
}

function usage(text, bad) {
  $("usage").textContent = text;
  $("usage").classList.toggle("bad", !!bad);
}

// ---- asking

// lines yields the data of server-sent events.
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const list = rest.split("\n");
    rest = list.pop();
    for (const l of list) {
      if (l.startsWith("data: ")) yield l.slice(6);
    }
  }
}

// take adds a chunk of a chat or of a completion to the answer.
function take(m, chunk) {
  if (chunk.error) throw new Error(chunk.error.message);
  for (const c of chunk.choices || []) {
    if (c.delta) {
      m.content += c.delta.content || "";
      m.thought += c.delta.reasoning_content || "";
      for (const t of (c.logprobs && c.logprobs.content) || []) m.tokens.push({ token: t.token, logprob: t.logprob, top: t.top_logprobs });
    } else {
      m.content += c.text || "";
      const l = c.logprobs;
      for (let i = 0; l && i < l.tokens.length; i++) {
        const top = Object.entries(l.top_logprobs[i] || {}).map(([token, logprob]) => ({ token, logprob }));
        m.tokens.push({ token: l.tokens[i], logprob: l.token_logprobs[i], top });
      }
    }
    if (c.finish_reason) m.finish = c.finish_reason;
  }
}

function request() {
  const p = { model, stream: true, stream_options: { include_usage: true }, ...sampling() };
  if (!chats) {
    // The API's own limit of 16 is short for a text.
    if (!p.max_tokens) p.max_tokens = 200;
    return ["v1/completions", { ...p, prompt: messages.map((m) => m.content).join(""), logprobs: 5 }];
  }
  const list = messages.map((m) => ({ role: m.role, content: m.content }));
  if ($("system").value.trim()) list.unshift({ role: "system", content: $("system").value });
  return ["v1/chat/completions", { ...p, messages: list, logprobs: true, top_logprobs: 5 }];
}

async function answer() {
  let path, body;
  try {
    [path, body] = request();
  } catch (e) {
    usage(e.message, true);
    return;
  }
  const m = { role: "assistant", content: "", thought: "", tokens: [] };
  messages.push(m);
  $("messages").append(draw(m));
  toEnd();
  running = new AbortController();
  buttons();
  usage("…");
  const start = performance.now();
  let first = 0, used = null, waiting = false;
  const show = () => {
    waiting = false;
    const stay = atEnd();
    redraw(m);
    if (stay) toEnd();
  };
  try {
    const r = await ask(path, body, { signal: running.signal });
    for await (const data of lines(r.body)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data);
      if (chunk.usage) used = chunk.usage;
      take(m, chunk);
      if (!first && (m.content || m.thought)) first = performance.now();
      if (!waiting) {
        waiting = true;
        requestAnimationFrame(show);
      }
    }
    usage(summary(used, first - start, performance.now() - first, m.finish));
  } catch (e) {
    if (e.name === "AbortError") {
      usage("stopped");
    } else {
      m.error = e.message;
      usage("");
    }
  }
  running = null;
  redraw(m);
  buttons();
  $("input").focus();
}

function summary(u, wait, rest, finish) {
  if (!u) return "";
  const out = u.completion_tokens, cached = (u.prompt_tokens_details || {}).cached_tokens || 0;
  let s = `${u.prompt_tokens} prompt tokens${cached ? ` (${cached} from the cache)` : ""}, first token after ${Math.round(wait)} ms, ${out} generated`;
  // A short answer comes in one piece, which says nothing about the model.
  if (out > 1 && rest > 200) s += `, ${((out - 1) / rest * 1000).toFixed(1)} per second`;
  if (finish === "length") s += "; ended at the limit";
  return s;
}

function send() {
  const text = $("input").value;
  if (running || (!text.trim() && chats) || (!text && !messages.length)) return;
  if (text) {
    const m = { role: "user", content: text };
    messages.push(m);
    $("messages").append(draw(m));
  }
  $("input").value = "";
  answer();
}

function again() {
  if (running) return;
  let i = messages.length - 1;
  while (i >= 0 && messages[i].role !== "assistant") i--;
  if (i < 0) return;
  for (const m of messages.splice(i)) m.box.remove();
  answer();
}

// ---- the server

async function find() {
  try {
    const list = await (await ask("v1/models")).json();
    model = list.data[0].id;
    $("model").textContent = model;
    document.title = model + " · graphrun";
  } catch (e) {
    if (e.status !== 401) return setTimeout(find, 1000);
    $("model").textContent = "…";
    usage(e.message, true);
    return;
  }
  try {
    await ask("apply-template", { messages: [{ role: "user", content: "x" }] });
  } catch (e) {
    chats = e.code !== "no_chat_template";
  }
  $("system-row").hidden = !chats;
  $("send").textContent = chats ? "Send" : "Continue";
  $("input").placeholder = (chats ? "Message" : "A text to go on with") + " · Enter sends, Shift+Enter is a new line";
  $("max_tokens").placeholder = chats ? "no limit" : "200";
  $("messages").dataset.empty = chats ? "Ask something." : "This model continues texts. Write the beginning of one.";
  usage("");
}

async function health() {
  let text = "", bad = true;
  try {
    const h = await (await fetch("health")).json();
    bad = h.status !== "ok";
    text = bad ? h.status + (h.status === "loading" ? ` ${Math.round(100 * h.loaded)} %` : "") : h.requests_running ? `${h.requests_running} running, ${h.requests_queued} waiting` : "ready";
  } catch {
    text = "the server is gone";
  }
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").classList.toggle("bad", bad);
  setTimeout(health, document.hidden ? 10000 : 2000);
}

// ---- tabs, theme, keys

const tabs = ["chat", "graph", "profile"];

function show(name, focus) {
  for (const t of tabs) {
    const on = t === name;
    $(t).hidden = !on;
    $("tab-" + t).setAttribute("aria-selected", String(on));
    $("tab-" + t).tabIndex = on ? 0 : -1;
  }
  if (focus) $("tab-" + name).focus();
  if (name === "graph") showGraph(document.documentElement.dataset.theme);
  if (name !== "profile") stopProfile();
  // With a slash, so that it is no element's id: the browser would go there.
  if (location.hash !== "#/" + name) history.replaceState(null, "", "#/" + name);
}

for (const t of tabs) {
  $("tab-" + t).addEventListener("click", () => show(t));
  $("tab-" + t).addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[e.key];
    if (step) show(tabs[(tabs.indexOf(t) + step) % tabs.length], true);
  });
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("graphrun-theme", name); } catch { /* stays for this visit */ }
}

let first = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
try { first = localStorage.getItem("graphrun-theme") || first; } catch { /* as the system has it */ }
document.documentElement.dataset.theme = first;
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

$("composer").addEventListener("submit", (e) => { e.preventDefault(); send(); });
$("input").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    send();
  }
});
$("input").addEventListener("keypress", (e) => { if (e.key === "Enter" && !e.shiftKey) e.preventDefault(); });
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && running) running.abort(); });
$("stop").addEventListener("click", () => running && running.abort());
$("again").addEventListener("click", again);
$("clear").addEventListener("click", () => {
  messages.length = 0;
  $("messages").replaceChildren();
  usage("");
  buttons();
  $("input").focus();
});
$("tokens").addEventListener("change", () => messages.forEach(redraw));
$("settings").addEventListener("change", remember);
$("key").addEventListener("change", find);
$("profile-run").addEventListener("click", () => ($("profile-run").getAttribute("aria-pressed") === "true" ? stopProfile() : startProfile()));
for (const name of ["mouseover", "focusin"]) {
  $("messages").addEventListener(name, (e) => { if (e.target.graphrun) showTip(e.target); });
}
for (const name of ["mouseout", "focusout", "scroll"]) {
  $("messages").addEventListener(name, () => { $("tip").hidden = true; });
}

recall();
if (innerWidth < 768) $("settings").open = false;
buttons();
find();
health();
show(tabs.includes(location.hash.slice(2)) ? location.hash.slice(2) : "chat");
$("input").focus();
