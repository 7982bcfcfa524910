// The tab with the compiled graph: the page that graphrun --dump=html writes.
import { ask } from "./app.js";

const $ = (id) => document.getElementById(id);
let shown = false;

export async function showGraph() {
  if (shown) return;
  shown = true;
  $("graph-state").textContent = "compiling…";
  try {
    const page = await (await ask("graph")).blob();
    $("graph-frame").src = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    $("graph-state").textContent = "";
  } catch (e) {
    shown = false;
    $("graph-state").textContent = e.message;
  }
}
