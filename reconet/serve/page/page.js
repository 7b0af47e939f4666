// The page: takes images in, and connects what people do with view and ranks.

import { $, ask, complain, loadImage, latest } from "./asking.js";
import { choose, chosen, flip, keep, loadHeat, loadRanks } from "./ranks.js";
import { begin, canvas, draw, make, mega, model, paint, pixels, read, state } from "./view.js";

function send(file) {
  const { upload_bytes } = model.limits;
  if (file.size > upload_bytes) {
    return complain(`${file.name || "The file"} has ${mega(file.size)} MB; at most ${mega(upload_bytes)} MB are taken.`);
  }
  return latest(async (signal, current) => {
    $("status").textContent = "Segmenting ...";
    delete document.body.dataset.explored;
    const headers = { "Content-Type": file.type || "application/octet-stream" };
    const told = await ask("/api/images", { method: "POST", body: file, headers, signal }).catch((error) => {
      if (current()) $("status").textContent = "";
      throw error;
    });
    const base = `/api/images/${told.id}`;
    const [image, hover] = await Promise.all([loadImage(`${base}/image.jpg`), loadImage(`${base}/hover.png`)]);
    if (!current()) return;
    begin(told, image, pixels(hover));
    open(told);
  });
}

function open(told) {
  for (const id of ["frame", "under", "classes"]) $(id).hidden = false;
  $("ranks").hidden = !model.rank;
  $("heat").checked = $("only-changed").checked = false;
  document.body.classList.add("open");
  const smaller = told.view_width < told.width ? `, shown at ${told.view_width} × ${told.view_height}` : "";
  $("status").textContent = `${told.width} × ${told.height} pixels${smaller}, segmented in ${told.seconds.toFixed(2)} s`;
  if (model.rank) loadRanks();
}

function point(event) {
  const box = canvas.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * state.width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * state.height);
  if (x >= 0 && y >= 0 && x < state.width && y < state.height) read([x, y]);
}

function walk(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !state.shown) return;
  event.preventDefault();
  const far = event.shiftKey ? 10 : 1;
  const [x, y] = state.at || [state.width >> 1, state.height >> 1];
  const inside = (value, length) => Math.min(length - 1, Math.max(0, value));
  read([inside(x + far * step[0], state.width), inside(y + far * step[1], state.height)]);
}

function take(files) {
  const file = [...files].find((one) => one.type.startsWith("image/")) || files[0];
  if (file) send(file);
}

for (const kind of ["pointermove", "pointerdown"]) canvas.addEventListener(kind, point);
canvas.addEventListener("keydown", walk);
$("file").addEventListener("change", () => { take($("file").files); $("file").value = ""; });
$("opacity").addEventListener("input", draw);
$("only-changed").addEventListener("change", paint);
$("save").addEventListener("click", () => make("a", { href: canvas.toDataURL(), download: "segmented.png" }).click());
$("kept").addEventListener("input", () => { const n = $("kept").valueAsNumber; keep((_rank, place) => place < n); });
$("one").addEventListener("input", () => choose($("one").valueAsNumber - 1));
$("heat").addEventListener("change", loadHeat);
$("toggle").addEventListener("click", () => flip(chosen()));
$("only").addEventListener("click", () => keep((rank) => rank === chosen()));
$("all-on").addEventListener("click", () => keep(() => true));
$("all-off").addEventListener("click", () => keep(() => false));
addEventListener("paste", (event) => take(event.clipboardData.files));
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files);
  });
}

$("about").textContent = model.title;
document.title = `reconet: ${model.title}`;
$("facts").replaceChildren(...model.facts.flatMap(({ name, value }) =>
  [make("dt", { textContent: name }), make("dd", { textContent: value })]));
const shelf = await ask("/api/examples");
$("examples-about").textContent = shelf.about;
$("examples").replaceChildren(...shelf.examples.map(({ name, url }) => {
  const button = make("button", { type: "button" }, make("img", { src: url, alt: name, loading: "lazy" }));
  button.addEventListener("click", async () => send(await (await fetch(url)).blob()));
  return button;
}));
document.body.dataset.ready = "yes";
