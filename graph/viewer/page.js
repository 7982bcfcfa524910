// The viewer. Data comes from the script element "data" (graph/html.go says in
// what form). Lists draw the rows in sight only, so that the size of the graph
// costs nothing; blocks of one kind show one layer until they are opened.
"use strict";
(() => {
  const D = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const ROW = 24;

  // Fields of a record.
  const ID = 0, OP = 1, NAME = 2, LAYER = 3, TYPE = 4, ATTRS = 5, ORIGIN = 6, COST = 7;
  const ARGS = COST + 2 * D.steps.length;

  const esc = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const hue = (id) => Math.round((id * 137.508) % 360);
  const kindOf = (r) => D.ops[r[OP]].kind;
  const isLeaf = (r) => ["input", "weight", "const", "cache"].includes(kindOf(r));
  const typeText = (r) => D.types[r[TYPE]].dtype + D.types[r[TYPE]].shape;
  const label = (r) => D.names[r[NAME]] || D.ops[r[OP]].name;
  const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");

  function bytes(n) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let u = 0;
    for (; n >= 1024 && u < 4; n /= 1024) u++;
    return (u === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[u];
  }
  function count(n) {
    if (n < 10000) return n.toLocaleString("en");
    const units = ["", " k", " M", " G", " T"];
    let u = 0;
    for (; n >= 1000 && u < 4; n /= 1000) u++;
    return (n >= 100 ? n.toFixed(1) : n.toFixed(2)) + units[u];
  }

  // What the page shows now.
  const view = {
    picked: [], // ids, the one of the panel last
    column: D.cols.length - 1,
    step: 0,
    weights: false, changes: false, open: false,
    shown: [], // layer shown of each kind
    past: [],
    found: [], at: -1, hits: new Set(),
  };
  const sizes = []; // layers of each kind
  D.kinds.forEach((k, l) => {
    if (k < 0) return;
    (sizes[k] ||= []).push(l);
    view.shown[k] ??= l;
  });
  const folds = (layer) => layer >= 0 && sizes[D.kinds[layer]].length > 1 && !view.open;

  // Columns.
  const cols = D.cols.map((c, i) => {
    const col = { i, recs: c.recs, data: c, at: new Map(), mem: new Map(), rows: [], rowOf: new Map(), uses: null };
    c.recs.forEach((r, pos) => col.at.set(D.recs[r][ID], pos));
    for (const [pos, ...m] of c.mem || []) col.mem.set(D.recs[c.recs[pos]][ID], m);
    return col;
  });
  const recAt = (col, pos) => D.recs[col.recs[pos]];
  const recOf = (col, id) => (col.at.has(id) ? recAt(col, col.at.get(id)) : null);
  for (const col of cols) {
    const before = cols[col.i - 1], after = cols[col.i + 1];
    col.mark = col.recs.map((r, pos) => {
      const id = D.recs[r][ID];
      let m = "";
      if (before && !before.at.has(id)) m = "new";
      else if (before && before.recs[before.at.get(id)] !== r) m = "changed";
      if (after && !after.at.has(id)) m += " gone";
      return m;
    });
    col.counts = { new: 0, changed: 0, gone: before ? before.recs.filter((r) => !col.at.has(D.recs[r][ID])).length : 0 };
    for (const m of col.mark) {
      if (m.startsWith("new")) col.counts.new++;
      if (m.startsWith("changed")) col.counts.changed++;
    }
  }
  const last = cols[cols.length - 1];
  const anyCol = (id) => (cols[view.column].at.has(id) ? cols[view.column] : cols.findLast((c) => c.at.has(id)));

  function usesIn(col, id) {
    if (!col.uses) {
      col.uses = new Map();
      for (let pos = 0; pos < col.recs.length; pos++) {
        const r = recAt(col, pos);
        for (const a of new Set(r.slice(ARGS))) {
          if (!col.uses.has(a)) col.uses.set(a, []);
          col.uses.get(a).push(r[ID]);
        }
      }
    }
    return col.uses.get(id) || [];
  }

  // Rows of a column: a position in recs, or -1-layer for the head of a block.
  function arrange(col) {
    const rows = (col.rows = []);
    col.rowOf.clear();
    let layer = -1, headed = true;
    for (let pos = 0; pos < col.recs.length; pos++) {
      const r = recAt(col, pos), l = r[LAYER];
      if (folds(l) && view.shown[D.kinds[l]] !== l) continue;
      const kind = kindOf(r);
      if (!view.weights && (kind === "weight" || kind === "const")) continue;
      if (view.changes && !col.mark[pos]) continue;
      if (l !== layer) {
        layer = l;
        headed = l < 0;
      }
      if (!headed) {
        rows.push(-1 - l);
        headed = true;
      }
      col.rowOf.set(r[ID], rows.length);
      rows.push(pos);
    }
    col.space.style.height = rows.length * ROW + 8 + "px";
  }

  const ranges = (list) => {
    const out = [];
    for (let i = 0, j; i < list.length; i = j) {
      for (j = i + 1; j < list.length && list[j] === list[j - 1] + 1; j++);
      out.push(j - i > 1 ? list[i] + "–" + list[j - 1] : list[i]);
    }
    return out.join(", ");
  };

  const chip = (id, extra = "") =>
    `<span class="v${view.picked.includes(id) ? " on" : ""}${extra}" data-v="${id}" style="--h:${hue(id)}">v${id}</span>`;

  function blockHTML(layer, top) {
    const same = sizes[D.kinds[layer]];
    let s = `<div class="block" role="presentation" data-l="${layer}" style="top:${top}px">`;
    if (same.length > 1 && !view.open) {
      s += `<button data-go="-1" tabindex="-1" aria-label="Layer before">‹</button><b>layer ${layer}</b><button data-go="1" tabindex="-1" aria-label="Layer after">›</button>`;
      s += `<button class="times" data-open tabindex="-1" title="Open all ${same.length} layers of this kind">×${same.length}</button><span class="which" title="layers ${ranges(same)}">${ranges(same)}</span>`;
    } else {
      s += `<b>layer ${layer}</b>`;
      if (same.length > 1) s += `<button data-open tabindex="-1">fold</button>`;
    }
    return s + "</div>";
  }

  function rowHTML(col, pos, top) {
    const r = recAt(col, pos), id = r[ID], args = r.slice(ARGS);
    const kind = kindOf(r);
    let cls = "row " + (isLeaf(r) ? "leaf " : "") + kind;
    if (col.mark[pos]) cls += " " + col.mark[pos];
    const main = view.picked[view.picked.length - 1];
    let style = `top:${top}px;--h:${hue(id)}`;
    if (view.picked.includes(id)) cls += " sel" + (id === main && col.i === view.column ? " here" : "");
    const used = args.find((a) => view.picked.includes(a));
    if (used !== undefined) {
      cls += " uses";
      style += `;--s:${hue(used)}`;
    }
    if (main !== undefined && recOf(col, main)?.slice(ARGS).includes(id)) cls += " feeds";
    if (view.hits.has(id)) cls += " found";
    const title = `v${id} = ${D.ops[r[OP]].name} ${args.map((a) => "v" + a).join(" ")} : ${typeText(r)}${r[LAYER] >= 0 ? ", layer " + r[LAYER] : ""}`;
    return `<div class="${cls}" role="option" aria-selected="${view.picked.includes(id)}" id="c${col.i}v${id}" data-p="${pos}" style="${style}" title="${esc(title)}">` +
      `<span class="id">${chip(id)}</span><span class="op">${esc(D.ops[r[OP]].name)}</span>` +
      (args.length ? `<span class="args">${args.map((a) => chip(a)).join("")}</span>` : "") +
      `<span class="role">${esc(D.names[r[NAME]])}</span><span class="type">${esc(typeText(r))}</span></div>`;
  }

  function draw(col) {
    const first = Math.max(0, Math.floor(col.list.scrollTop / ROW) - 6);
    const end = Math.min(col.rows.length, first + Math.ceil((col.list.clientHeight || 600) / ROW) + 12);
    let s = "";
    for (let i = first; i < end; i++) {
      const x = col.rows[i];
      s += x < 0 ? blockHTML(-1 - x, i * ROW) : rowHTML(col, x, i * ROW);
    }
    col.space.innerHTML = s;
    const main = view.picked[view.picked.length - 1];
    if (main !== undefined && col.rowOf.has(main)) col.list.setAttribute("aria-activedescendant", `c${col.i}v${main}`);
    else col.list.removeAttribute("aria-activedescendant");
  }
  const drawAll = () => cols.forEach(draw);

  // A change of what is listed keeps the top value of each column in place.
  function rearrange() {
    const tops = cols.map(anchor);
    cols.forEach(arrange);
    cols.forEach((col, i) => follow(col, tops[i]));
    drawAll();
  }

  // anchor names the values at the top of a column and how far they are from it.
  function anchor(col) {
    const y = col.list.scrollTop, first = Math.floor(y / ROW), out = [];
    for (let i = first; i < col.rows.length && out.length < 60; i++) {
      if (col.rows[i] >= 0) out.push([recAt(col, col.rows[i])[ID], i * ROW - y]);
    }
    return y === 0 ? "top" : out;
  }
  function follow(col, where) {
    if (where === "top") scrollTo(col, 0);
    else {
      const hit = where.find(([id]) => col.rowOf.has(id));
      if (hit) scrollTo(col, col.rowOf.get(hit[0]) * ROW - hit[1]);
    }
  }
  function scrollTo(col, y) {
    y = Math.max(0, Math.min(Math.round(y), col.list.scrollHeight - col.list.clientHeight));
    if (Math.abs(col.list.scrollTop - y) < 1) return;
    col.expect = y;
    col.list.scrollTop = y;
  }

  // Selection.
  const main = () => view.picked[view.picked.length - 1];

  // reveal makes the row of a value exist: its layer shown, its sort listed.
  function reveal(id, col) {
    const r = recOf(col, id), l = r[LAYER];
    let changed = false;
    if (folds(l) && view.shown[D.kinds[l]] !== l) {
      view.shown[D.kinds[l]] = l;
      changed = true;
    }
    if (!view.weights && ["weight", "const"].includes(kindOf(r))) changed = view.weights = true;
    if (view.changes && !col.mark[col.at.get(id)]) {
      view.changes = false;
      changed = true;
    }
    if (changed) {
      cols.forEach(arrange);
      buttons();
    }
  }

  function pick(id, o = {}) {
    const col = o.col && o.col.at.has(id) ? o.col : anyCol(id);
    if (!col) return;
    if (main() !== undefined && main() !== id && !o.back) view.past.push(main());
    view.column = col.i;
    document.body.classList.add("picked"); // the sheet of a narrow window takes room
    if (o.add) view.picked = view.picked.includes(id) ? view.picked.filter((x) => x !== id) : [...view.picked, id];
    else view.picked = [id];
    reveal(id, col);
    // The same value lies at the same height everywhere.
    const row = col.rowOf.get(id);
    let y = row * ROW - col.list.scrollTop;
    if (y < ROW || y > col.list.clientHeight - 2 * ROW) {
      y = o.edge ? Math.max(ROW, Math.min(y, col.list.clientHeight - 3 * ROW)) : col.list.clientHeight * 0.4;
      scrollTo(col, row * ROW - y);
      y = row * ROW - col.list.scrollTop;
    }
    for (const c of cols) {
      if (c !== col && c.rowOf.has(id)) scrollTo(c, c.rowOf.get(id) * ROW - y);
    }
    if (o.focus !== false) {
      col.list.focus({ preventScroll: true });
      col.el.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    shown();
  }
  function clear() {
    view.picked = [];
    shown();
  }
  function shown() {
    document.body.classList.toggle("picked", view.picked.length > 0);
    drawAll();
    panel();
    memory.draw();
    const hash = view.picked.length ? "#v" + main() : location.pathname + location.search;
    try { history.replaceState(null, "", hash); } catch { /* a page without an address */ }
  }

  // The side panel.
  const stepButtons = () => (D.steps.length < 2 ? "" :
    `<div class="steps" role="group" aria-label="Step that costs are told for">${D.steps.map((s, i) => `<button data-step="${i}" aria-pressed="${i === view.step}">${esc(s.name)}</button>`).join("")}</div>`);

  function sized(shape, dims) {
    return shape.replace(/[A-Za-z_]\w*/g, (n) => (n in dims ? dims[n] : n));
  }
  function linkList(col, ids, limit = 12) {
    if (!ids.length) return `<p class="doc">none</p>`;
    const shownIDs = ids.slice(0, limit);
    return `<ul class="links">${shownIDs.map((id) => {
      const r = recOf(col, id);
      return `<li>${chip(id)}<span>${r ? esc(D.ops[r[OP]].name + (D.names[r[NAME]] ? "  " + D.names[r[NAME]] : "") + (r[LAYER] >= 0 && !isLeaf(r) ? "  layer " + r[LAYER] : "")) : ""}</span></li>`;
    }).join("")}${ids.length > limit ? `<li><button data-more>and ${ids.length - limit} more</button></li>` : ""}</ul>`;
  }

  function panel(more) {
    const id = main();
    $("panel").innerHTML = id === undefined ? overview() : details(id, more);
  }

  function details(id, more) {
    const col = anyCol(id), r = recOf(col, id), op = D.ops[r[OP]], t = D.types[r[TYPE]];
    const facts = [];
    const fact = (k, v, small) => facts.push(`<dt>${k}</dt><dd>${v}${small ? `<small>${small}</small>` : ""}</dd>`);
    fact("type", `<code>${esc(t.dtype)}</code>`);
    const dims = D.steps[view.step]?.dims;
    const now = dims ? sized(t.shape, dims) : t.shape;
    fact("shape", `<code>${esc(t.shape)}</code>`, now !== t.shape ? esc(now) : "");
    if (dims) {
      fact("bytes", bytes(t.bytes[view.step]), t.bytes[view.step] >= 1024 ? t.bytes[view.step].toLocaleString("en") : "");
      if (!isLeaf(r) && op.kind !== "view") {
        const moved = r[COST + 2 * view.step], macs = r[COST + 2 * view.step + 1];
        fact("multiply-adds", macs ? count(macs) : "0", macs && moved ? (macs / moved).toFixed(2) + " per byte" : "");
        fact("bytes moved", bytes(moved));
      }
    }
    if (D.attrs[r[ATTRS]]) fact("attributes", `<code>${esc(D.attrs[r[ATTRS]])}</code>`);
    if (r[LAYER] >= 0) fact("layer", r[LAYER], sizes[D.kinds[r[LAYER]]].length > 1 ? `one of ${sizes[D.kinds[r[LAYER]]].length} alike` : "");
    const planned = cols.findLast((c) => c.mem.has(id));
    if (planned) {
      const [off, size, from, to] = planned.mem.get(id);
      const end = planned.recs[to] !== undefined ? recAt(planned, to) : null;
      fact("arena", `offset ${off.toLocaleString("en")}`, `${bytes(size)} at the largest step`);
      fact("lifetime", `steps ${from} to ${to}`, end ? `until v${end[ID]} ${esc(label(end))} has read it` : "until the step has ended: an output");
    } else if (op.kind === "view" || op.kind === "state") {
      fact("storage", `that of ${chip(r[ARGS])}`);
    } else if (isLeaf(r)) {
      fact("storage", { input: "given by the caller", weight: "the model file", const: "the program", cache: "kept between steps" }[op.kind]);
    }
    if (D.origins[r[ORIGIN]]) fact("source", `<code>${esc(D.origins[r[ORIGIN]])}</code>`);
    const outputs = col.data.outputs.filter((o) => o.id === id).map((o) => o.name);
    if (outputs.length) fact("output", esc(outputs.join(", ")));

    const uses = usesIn(col, id);
    return `<button class="close" data-close>Close</button><h2>${chip(id)}${esc(op.name)}</h2>` +
      (D.names[r[NAME]] ? `<p class="lead">${esc(D.names[r[NAME]])}</p>` : "") +
      (op.doc ? `<p class="doc">${esc(op.doc)}</p>` : "") + stepButtons() +
      `<dl>${facts.join("")}</dl>` +
      (r.length > ARGS ? `<h3>Arguments</h3>${linkList(col, r.slice(ARGS), 99)}` : "") +
      `<h3>${uses.length ? plural(uses.length, "use") : "Uses"}</h3>${linkList(col, uses, more ? 1e9 : 12)}` +
      `<h3>Through the passes</h3><ul class="links">${cols.map((c) => {
        const m = c.at.has(id) ? c.mark[c.at.get(id)].split(" ")[0] || (c.i ? "as before" : "there") : c.i && cols[c.i - 1].at.has(id) ? "removed" : "–";
        return `<li><span>${esc(c.data.passes[0].name)}</span><span>${m === "new" ? "made here" : m}</span></li>`;
      }).join("")}</ul>`;
  }

  function overview() {
    const perOp = new Map();
    let macs = 0, moved = 0;
    for (let pos = 0; pos < last.recs.length; pos++) {
      const r = recAt(last, pos), op = D.ops[r[OP]];
      if (["input", "weight", "const", "view"].includes(op.kind)) continue;
      if (!perOp.has(op.name)) perOp.set(op.name, [0, 0, 0]);
      const x = perOp.get(op.name);
      x[0]++;
      if (dimsKnown()) {
        x[1] += r[COST + 2 * view.step];
        x[2] += r[COST + 2 * view.step + 1];
        moved += r[COST + 2 * view.step];
        macs += r[COST + 2 * view.step + 1];
      }
    }
    const rows = [...perOp].filter(([, x]) => x[1] || x[2] || !dimsKnown()).sort((a, b) => b[1][2] - a[1][2] || b[1][1] - a[1][1] || b[1][0] - a[1][0]);
    const share = (x, all) => `<i style="width:${all ? (100 * x) / all : 0}%"></i>`;
    let s = `<h2>${esc(D.graph)}</h2><p class="lead">Click a value to follow it through the passes.</p>` + stepButtons();
    s += `<h3>Operations as compiled</h3><table><tr><th></th><th>n</th><th>mult-adds</th><th>bytes</th></tr>`;
    for (const [name, x] of rows) s += `<tr><td>${esc(name)}</td><td>${x[0]}</td><td class="share">${x[2] ? count(x[2]) : ""}${share(x[2], macs)}</td><td class="share">${x[1] ? bytes(x[1]) : ""}${share(x[1], moved)}</td></tr>`;
    s += `<tr><td>together</td><td></td><td>${count(macs)}</td><td>${bytes(moved)}</td></tr></table>`;
    s += `<h3>Passes</h3><table><tr><th></th><th>values</th><th>made</th><th>changed</th><th>removed</th></tr>`;
    for (const c of cols) {
      c.data.passes.forEach((p, i) => {
        if (p.name === "build") return;
        const n = i > 0 ? { new: 0, changed: 0, gone: 0 } : c.counts, some = (x) => x || "";
        s += `<tr><td>${esc(p.name)}</td>` + (p.off ? `<td colspan="4">off</td></tr>` :
          `<td>${c.recs.length.toLocaleString("en")}</td><td class="plus">${some(n.new)}</td><td class="tilde">${some(n.changed)}</td><td class="minus">${some(n.gone)}</td></tr>`);
      });
    }
    return s + "</table>";
  }
  const dimsKnown = () => D.steps.length > 0;

  // The memory plan.
  const memory = (() => {
    const col = cols.findLast((c) => c.mem.size);
    if (!col) {
      $("memory").hidden = $("b-memory").hidden = true;
      return { draw() {}, fit() {} };
    }
    const canvas = $("canvas"), tip = $("tip"), arena = col.data.arena, steps = col.recs.length + 1;
    const places = [...col.mem].map(([id, m]) => ({ id, off: m[0], size: m[1], from: m[2], to: m[3] }));
    let alive = 0, most = 0, at = 0;
    const change = new Array(steps + 2).fill(0);
    for (const p of places) {
      change[p.from] += p.size;
      change[p.to + 1] -= p.size;
    }
    change.forEach((d, i) => {
      if ((alive += d) > most) [most, at] = [alive, i];
    });
    const total = places.reduce((n, p) => n + p.size, 0);
    $("plan").textContent = `${bytes(arena)} for ${plural(places.length, "value")} of ${bytes(total)} together; at most ${bytes(most)} alive at once, in step ${at}. Time goes right, offsets up.`;
    const z = { x0: 0, x1: steps, y0: 0, y1: arena };
    const pad = { l: 64, r: 8, t: 6, b: 18 };
    let w = 0, h = 0, colours = null;
    const X = (s) => pad.l + ((s - z.x0) / (z.x1 - z.x0)) * (w - pad.l - pad.r);
    const Y = (o) => h - pad.b - ((o - z.y0) / (z.y1 - z.y0)) * (h - pad.t - pad.b);

    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    function colour(css) {
      probe.style.color = css;
      return getComputedStyle(probe).color;
    }
    function palette() {
      const dark = getComputedStyle(document.documentElement).colorScheme;
      const isDark = dark === "dark" || (dark !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
      return {
        fill: (id) => (isDark ? `oklch(0.5 0.09 ${hue(id)})` : `oklch(0.86 0.075 ${hue(id)})`),
        strong: (id) => (isDark ? `oklch(0.82 0.15 ${hue(id)})` : `oklch(0.55 0.19 ${hue(id)})`),
        text: colour("var(--text)"), muted: colour("var(--muted)"), line: colour("var(--line)"), bg: colour("var(--raised)"),
      };
    }
    function draw() {
      if ($("memory").hidden) return;
      const box = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
      w = box.width;
      h = box.height;
      if (!w) return;
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
      const c = canvas.getContext("2d");
      c.scale(ratio, ratio);
      colours = palette();
      const font = getComputedStyle(document.body).fontFamily;
      c.fillStyle = colours.bg;
      c.fillRect(pad.l, pad.t, w - pad.l - pad.r, h - pad.t - pad.b);
      c.font = "11px " + font;
      c.textBaseline = "middle";
      // Offsets.
      c.textAlign = "right";
      for (let i = 0; i <= 4; i++) {
        const o = z.y0 + ((z.y1 - z.y0) * i) / 4;
        c.fillStyle = colours.line;
        c.fillRect(pad.l, Math.round(Y(o)), w - pad.l - pad.r, 1);
        c.fillStyle = colours.muted;
        c.fillText(bytes(o), pad.l - 8, Math.min(h - pad.b, Math.max(pad.t + 5, Y(o))));
      }
      // Layers.
      c.textAlign = "left";
      let layer = -2, free = 0;
      for (let i = Math.max(0, Math.floor(z.x0)); i < Math.min(col.recs.length, z.x1); i++) {
        const l = recAt(col, i)[LAYER];
        if (l === layer) continue;
        layer = l;
        const x = Math.max(pad.l, X(i));
        c.fillStyle = colours.line;
        c.fillRect(x, pad.t, 1, h - pad.t - pad.b + 4);
        const text = l < 0 ? "" : free === 0 ? "layer " + l : String(l);
        if (text && x >= free) {
          c.fillStyle = colours.muted;
          c.fillText(text, x + 3, h - 8);
          free = x + c.measureText(text).width + 12;
        }
      }
      // Values.
      c.save();
      c.beginPath();
      c.rect(pad.l, pad.t, w - pad.l - pad.r, h - pad.t - pad.b);
      c.clip();
      const dim = view.picked.length > 0;
      for (const p of places) {
        if (p.to + 1 < z.x0 || p.from > z.x1) continue;
        const x = X(p.from), y = Y(p.off + p.size), dx = Math.max(1, X(p.to + 1) - x), dy = Math.max(1, Y(p.off) - y);
        const on = view.picked.includes(p.id);
        c.globalAlpha = dim && !on ? 0.45 : 1;
        c.fillStyle = on ? colours.strong(p.id) : colours.fill(p.id);
        c.fillRect(x, y, Math.max(1, dx - 0.5), Math.max(1, dy - 0.5));
        if (dx > 46 && dy > 13) {
          c.fillStyle = on ? colours.bg : colours.text;
          c.fillText(fitted(c, label(recOf(col, p.id)), dx - 10), x + 5, y + dy / 2);
        }
      }
      c.globalAlpha = 1;
      for (const id of view.picked) {
        const m = col.mem.get(id);
        if (!m) continue;
        c.strokeStyle = colours.strong(id);
        c.lineWidth = 2;
        c.strokeRect(X(m[2]) - 1, Y(m[0] + m[1]) - 1, Math.max(3, X(m[3] + 1) - X(m[2])) + 2, Math.max(3, Y(m[0]) - Y(m[0] + m[1])) + 2);
      }
      c.restore();
    }
    function fitted(c, text, room) {
      if (c.measureText(text).width <= room) return text;
      const n = Math.floor((text.length * room) / c.measureText(text).width) - 1;
      return n > 2 ? text.slice(0, n) + "…" : "";
    }
    function hit(e) {
      const box = canvas.getBoundingClientRect(), mx = e.clientX - box.left, my = e.clientY - box.top;
      let best = null, d = 5; // a thin place may be missed by a few pixels
      for (const p of places) {
        const dx = Math.max(X(p.from) - mx, mx - X(p.to + 1), 0), dy = Math.max(Y(p.off + p.size) - my, my - Y(p.off), 0);
        if (dx + dy < d) [best, d] = [p, dx + dy];
      }
      return best;
    }
    function zoom(f, cx, cy, fy = 1) {
      const span = Math.min(steps, Math.max(8, (z.x1 - z.x0) * f)), k = (cx - z.x0) / (z.x1 - z.x0);
      z.x0 = Math.max(0, Math.min(steps - span, cx - k * span));
      z.x1 = z.x0 + span;
      const tall = Math.min(arena, Math.max(arena / 4096, (z.y1 - z.y0) * fy)), j = (cy - z.y0) / (z.y1 - z.y0);
      z.y0 = Math.max(0, Math.min(arena - tall, cy - j * tall));
      z.y1 = z.y0 + tall;
      draw();
    }
    const stepAt = (e) => z.x0 + ((e.clientX - canvas.getBoundingClientRect().left - pad.l) / (w - pad.l - pad.r)) * (z.x1 - z.x0);
    const offAt = (e) => z.y0 + ((h - pad.b - (e.clientY - canvas.getBoundingClientRect().top)) / (h - pad.t - pad.b)) * (z.y1 - z.y0);
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      const f = Math.exp(Math.max(-60, Math.min(60, e.deltaY || e.deltaX)) / 200);
      e.shiftKey ? zoom(1, stepAt(e), offAt(e), f) : zoom(f, stepAt(e), offAt(e));
    }, { passive: false });
    let drag = null;
    canvas.addEventListener("pointerdown", (e) => {
      drag = { x: e.clientX, y: e.clientY, z: { ...z }, moved: false };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (drag) {
        const dx = ((e.clientX - drag.x) / (w - pad.l - pad.r)) * (z.x1 - z.x0), dy = ((e.clientY - drag.y) / (h - pad.t - pad.b)) * (z.y1 - z.y0);
        if (Math.abs(e.clientX - drag.x) + Math.abs(e.clientY - drag.y) > 4) drag.moved = true;
        if (drag.moved) {
          const span = z.x1 - z.x0, tall = z.y1 - z.y0;
          z.x0 = Math.max(0, Math.min(steps - span, drag.z.x0 - dx));
          z.x1 = z.x0 + span;
          z.y0 = Math.max(0, Math.min(arena - tall, drag.z.y0 + dy));
          z.y1 = z.y0 + tall;
          draw();
        }
        return;
      }
      const p = hit(e);
      tip.hidden = !p;
      if (!p) return;
      const r = recOf(col, p.id), box = canvas.getBoundingClientRect();
      tip.innerHTML = `<b>v${p.id}</b> ${esc(label(r))}${r[LAYER] >= 0 ? ", layer " + r[LAYER] : ""}<br>${bytes(p.size)} at ${p.off.toLocaleString("en")}, steps ${p.from} to ${p.to}`;
      const x = e.clientX - box.left, right = x > w - 340;
      tip.style.left = right ? "auto" : x + 14 + "px";
      tip.style.right = right ? w - x + 14 + "px" : "auto";
      tip.style.bottom = h - (e.clientY - box.top) + 10 + "px";
    });
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
    canvas.addEventListener("pointerup", (e) => {
      const click = drag && !drag.moved;
      drag = null;
      const p = click && hit(e);
      if (p) pick(p.id, { col, add: e.shiftKey, focus: false });
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    const mid = () => (z.x0 + z.x1) / 2, midY = () => (z.y0 + z.y1) / 2;
    const all = () => {
      Object.assign(z, { x0: 0, x1: steps, y0: 0, y1: arena });
      draw();
    };
    canvas.addEventListener("dblclick", all);
    $("z-in").onclick = () => {
      const m = col.mem.get(main());
      m ? zoom(0.5, (m[2] + m[3]) / 2, midY()) : zoom(0.5, mid(), midY());
    };
    $("z-out").onclick = () => zoom(2, mid(), midY());
    $("z-all").onclick = all;
    canvas.addEventListener("keydown", (e) => {
      const span = (z.x1 - z.x0) / 8;
      const move = { ArrowLeft: -span, ArrowRight: span }[e.key];
      if (move) {
        const d = Math.max(-z.x0, Math.min(steps - z.x1, move));
        z.x0 += d;
        z.x1 += d;
        draw();
      } else if (e.key === "+" || e.key === "=") zoom(0.5, mid(), midY());
      else if (e.key === "-") zoom(2, mid(), midY());
      else if (e.key === "0") all();
      else return;
      e.preventDefault();
      e.stopPropagation();
    });
    new ResizeObserver(draw).observe(canvas);
    return { draw };
  })();

  // Search: every word must occur in the text of a value, in any column.
  let texts = null;
  function search(q) {
    view.found = [];
    view.hits = new Set();
    view.at = -1;
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      if (!texts) {
        texts = new Map();
        for (const col of cols) {
          for (const i of col.recs) {
            const r = D.recs[i];
            const layer = r[LAYER] >= 0 ? ` layer ${r[LAYER]} l${r[LAYER]}` : "";
            texts.set(r[ID], `v${r[ID]} ${D.ops[r[OP]].name} ${D.names[r[NAME]]} ${typeText(r)} ${D.origins[r[ORIGIN]]} ${D.attrs[r[ATTRS]]}${layer} `.toLowerCase());
          }
        }
      }
      // An id means that value, not all whose id begins alike.
      const wanted = words.map((x) => (/^(v|l)\d+$/.test(x) ? x + " " : x));
      for (const [id, t] of texts) if (wanted.every((x) => t.includes(x))) view.found.push(id);
      view.hits = new Set(view.found);
    }
    tally(q);
    drawAll();
  }
  function tally(q) {
    $("found").textContent = !q.trim() ? "" : view.at < 0 ? plural(view.found.length, "value") : `${view.at + 1} of ${view.found.length}`;
  }
  function step(d) {
    const n = view.found.length;
    if (!n) return;
    view.at = view.at < 0 && d < 0 ? n - 1 : (view.at + d + n) % n;
    pick(view.found[view.at], { focus: false });
    tally($("query").value);
  }
  $("query").addEventListener("input", () => search($("query").value));
  $("search").addEventListener("submit", (e) => e.preventDefault());
  $("query").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      e.preventDefault();
      step(e.shiftKey ? -1 : 1);
    } else if (e.key === "Escape") {
      $("query").value = "";
      search("");
      cols[view.column].list.focus();
    }
    e.stopPropagation();
  });

  // Keys.
  function moveRow(d) {
    const col = cols[view.column];
    let i = main() !== undefined && col.rowOf.has(main()) ? col.rowOf.get(main()) + d : Math.floor(col.list.scrollTop / ROW);
    const way = Math.sign(d) || 1;
    i = Math.max(0, Math.min(col.rows.length - 1, i));
    while (i >= 0 && i < col.rows.length && col.rows[i] < 0) i += way;
    if (i >= 0 && i < col.rows.length) pick(recAt(col, col.rows[i])[ID], { col, edge: true });
  }
  function moveColumn(d) {
    const id = main();
    for (let i = view.column + d; i >= 0 && i < cols.length; i += d) {
      if (id === undefined || cols[i].at.has(id)) {
        view.column = i;
        if (id !== undefined) pick(id, { col: cols[i], back: true });
        cols[i].list.focus({ preventScroll: true });
        cols[i].el.scrollIntoView({ block: "nearest", inline: "nearest" });
        return;
      }
    }
  }
  // moveLayer goes to the value of the same role in the next layer of the kind.
  function moveLayer(d, from) {
    const col = cols[view.column], r = main() !== undefined ? recOf(col, main()) : null;
    const layer = from ?? r?.[LAYER];
    if (layer === undefined || layer < 0) return;
    const same = sizes[D.kinds[layer]], to = same[(same.indexOf(layer) + d + same.length) % same.length];
    if (to === layer) return;
    const members = (l) => col.recs.map((x) => D.recs[x]).filter((x) => x[LAYER] === l);
    const twin = r && r[LAYER] === layer ? members(to)[members(layer).indexOf(r)] : null;
    if (folds(to)) view.shown[D.kinds[to]] = to;
    cols.forEach(arrange);
    if (twin) pick(twin[ID], { col, back: true, edge: true });
    else drawAll();
  }
  const keys = {
    ArrowDown: () => moveRow(1), j: () => moveRow(1), ArrowUp: () => moveRow(-1), k: () => moveRow(-1),
    PageDown: () => moveRow(20), PageUp: () => moveRow(-20), Home: () => moveRow(-1e9), End: () => moveRow(1e9),
    ArrowLeft: () => moveColumn(-1), h: () => moveColumn(-1), ArrowRight: () => moveColumn(1), l: () => moveColumn(1),
    "[": () => moveLayer(-1), "]": () => moveLayer(1),
    a: () => {
      const r = main() !== undefined && recOf(anyCol(main()), main());
      if (r && r.length > ARGS) pick(r[ARGS]);
    },
    u: () => {
      const u = main() !== undefined ? usesIn(anyCol(main()), main()) : [];
      if (u.length) pick(u[0]);
    },
    Backspace: () => view.past.length && pick(view.past.pop(), { back: true }),
    o: () => toggle("open"), w: () => toggle("weights"), c: () => toggle("changes"), m: toggleMemory, t: theme,
    "/": () => $("query").select(), "?": () => $("help").showModal(), Escape: clear,
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
    const f = keys[e.key];
    if (!f || (e.target.tagName === "BUTTON" && e.key.length > 1 && e.key !== "Escape")) return;
    e.preventDefault();
    f();
  });

  // Buttons.
  function buttons() {
    $("b-weights").setAttribute("aria-pressed", view.weights);
    $("b-changes").setAttribute("aria-pressed", view.changes);
    $("b-open").setAttribute("aria-pressed", view.open);
    $("b-memory").setAttribute("aria-pressed", !$("memory").hidden);
  }
  function toggle(what) {
    view[what] = !view[what];
    buttons();
    rearrange();
    if (main() !== undefined && cols[view.column].rowOf.has(main())) pick(main(), { back: true, focus: false });
  }
  function toggleMemory() {
    $("memory").hidden = !$("memory").hidden;
    buttons();
    drawAll();
    memory.draw();
  }
  function theme() {
    const dark = getComputedStyle(document.documentElement).colorScheme;
    const isDark = dark === "dark" || (dark !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    memory.draw();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => memory.draw());
  $("b-weights").onclick = () => toggle("weights");
  $("b-changes").onclick = () => toggle("changes");
  $("b-open").onclick = () => toggle("open");
  $("b-memory").onclick = toggleMemory;
  $("b-theme").onclick = theme;
  $("b-help").onclick = () => $("help").showModal();
  if (!sizes.some((s) => s.length > 1)) $("b-open").hidden = true;

  $("panel").addEventListener("click", (e) => {
    const v = e.target.closest("[data-v]"), s = e.target.closest("[data-step]");
    if (v) pick(+v.dataset.v, { focus: false });
    else if (s) {
      view.step = +s.dataset.step;
      panel();
    } else if (e.target.closest("[data-more]")) panel(true);
    else if (e.target.closest("[data-close]")) clear();
  });

  // The frame of each column.
  for (const col of cols) {
    const el = (col.el = document.createElement("section"));
    el.className = "col";
    const c = col.counts;
    const marks = col.i === 0 ? "" :
      [[c.new, "plus", "+", "made"], [c.changed, "tilde", "~", "changed"], [c.gone, "minus", "−", "removed"]]
        .filter(([n]) => n).map(([n, cls, sign, word]) => `<span class="${cls}" title="${n} ${word}">${sign}${n}</span>`).join("") || `<span>${col.mem.size && !cols[col.i - 1].mem.size ? bytes(col.data.arena) + " arena" : "order only"}</span>`;
    const [first, ...same] = col.data.passes;
    el.innerHTML = `<header><h2>${esc(first.name)}${same.map((p) => ` <span class="${p.off ? "off" : "same"}" title="${p.off ? "switched off" : "changed nothing"}">${p.off ? "" : "= "}${esc(p.name)}</span>`).join("")}</h2>` +
      `<p><span>${plural(col.recs.length, "value")}</span>${marks}</p></header>` +
      `<div class="list" role="listbox" tabindex="0" aria-label="after ${esc(first.name)}"><div class="space" role="presentation"></div></div>`;
    col.list = el.querySelector(".list");
    col.space = el.querySelector(".space");
    $("cols").append(el);
    let due = false;
    col.list.addEventListener("scroll", () => {
      const mine = col.expect === undefined || Math.abs(col.list.scrollTop - col.expect) > 1;
      col.expect = undefined;
      if (mine) {
        const where = anchor(col);
        for (const o of cols) if (o !== col) follow(o, where);
      }
      if (!due) {
        due = true;
        requestAnimationFrame(() => {
          due = false;
          draw(col);
        });
      }
    }, { passive: true });
    col.list.addEventListener("focus", () => (view.column = col.i));
    col.list.addEventListener("click", (e) => {
      const block = e.target.closest(".block"), v = e.target.closest("[data-v]"), row = e.target.closest(".row");
      if (block) {
        const go = e.target.closest("[data-go]");
        if (go) {
          view.column = col.i;
          moveLayer(+go.dataset.go, +block.dataset.l);
        } else if (e.target.closest("[data-open]")) toggle("open");
      } else if (v) pick(+v.dataset.v, { col, add: e.shiftKey || e.ctrlKey || e.metaKey });
      else if (row) pick(recAt(col, +row.dataset.p)[ID], { col, add: e.shiftKey || e.ctrlKey || e.metaKey });
    });
    new ResizeObserver(() => draw(col)).observe(col.list);
  }

  // Head line and first picture.
  const layers = D.kinds.length, different = sizes.length;
  $("name").innerHTML = `${esc(D.graph)}<small>${esc(D.file)}</small>`;
  $("facts").textContent = [
    plural(last.recs.length, "value"),
    layers ? plural(layers, "layer") + (different < layers ? ` of ${plural(different, "kind")}` : "") : "",
    D.steps.length ? Object.entries(D.steps[D.steps.length - 1].dims).filter(([, n]) => n).map(([k, n]) => `${k}≤${n.toLocaleString("en")}`).join(" ") : "",
  ].filter(Boolean).join(" · ");
  if (matchMedia("(max-width: 860px)").matches) $("memory").hidden = true;
  buttons();
  cols.forEach(arrange);
  drawAll();
  const wanted = /^#v(\d+)$/.exec(location.hash);
  if (wanted && anyCol(+wanted[1])) pick(+wanted[1], { focus: false });
  else shown();
  requestAnimationFrame(() => setTimeout(() => (document.documentElement.dataset.ready = Math.round(performance.now()))));
})();
