// The page: take images in, and connect the controls with the view and the ranks.

import { $, latest, loadImage, requestJson, showProblem } from "./requests.js";
import { choose, chosen, keepOn, loadHeat, loadRanks, toggle } from "./ranks.js";
import { canvas, draw, make, megabytes, model, moveTo, paint, pixels, showImage, state } from "./view.js";

function send(file) {
  const { upload_bytes } = model.limits;
  if (file.size > upload_bytes) {
    return showProblem(`${file.name || "The file"} has ${megabytes(file.size)} MB. The server takes at most ${megabytes(upload_bytes)} MB.`);
  }
  return latest(async (signal, current) => {
    $("status").textContent = "Segmenting ...";
    delete document.body.dataset.explored;
    const headers = { "Content-Type": file.type || "application/octet-stream" };
    const info = await requestJson("/api/images", { method: "POST", body: file, headers, signal }).catch((error) => {
      if (current()) $("status").textContent = "";
      throw error;
    });
    const base = `/api/images/${info.id}`;
    const [image, hover] = await Promise.all([loadImage(`${base}/image.jpg`), loadImage(`${base}/hover.png`)]);
    if (!current()) return;
    showImage(info, image, pixels(hover));
    openPanels(info);
  });
}

function openPanels(info) {
  for (const id of ["frame", "under", "classes"]) $(id).hidden = false;
  $("ranks").hidden = !model.rank;
  $("heat").checked = $("only-changed").checked = false;
  document.body.classList.add("open");
  const smaller = info.view_width < info.width ? `, shown at ${info.view_width} × ${info.view_height}` : "";
  $("status").textContent = `${info.width} × ${info.height} pixels${smaller}, segmented in ${info.seconds.toFixed(2)} s`;
  if (model.rank) loadRanks();
}

function moveToPointer(event) {
  const box = canvas.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * state.width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * state.height);
  if (x >= 0 && y >= 0 && x < state.width && y < state.height) moveTo([x, y]);
}

function moveByKey(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !state.current) return;
  event.preventDefault();
  const distance = event.shiftKey ? 10 : 1;
  const [x, y] = state.position || [state.width >> 1, state.height >> 1];
  const inside = (value, length) => Math.min(length - 1, Math.max(0, value));
  moveTo([inside(x + distance * step[0], state.width), inside(y + distance * step[1], state.height)]);
}

function sendFirst(files) {
  const file = [...files].find((one) => one.type.startsWith("image/")) || files[0];
  if (file) send(file);
}

for (const kind of ["pointermove", "pointerdown"]) canvas.addEventListener(kind, moveToPointer);
canvas.addEventListener("keydown", moveByKey);
$("file").addEventListener("change", () => { sendFirst($("file").files); $("file").value = ""; });
$("opacity").addEventListener("input", draw);
$("only-changed").addEventListener("change", paint);
$("save").addEventListener("click", () => make("a", { href: canvas.toDataURL(), download: "segmented.png" }).click());
$("kept").addEventListener("input", () => { const n = $("kept").valueAsNumber; keepOn((_rank, order) => order < n); });
$("one").addEventListener("input", () => choose($("one").valueAsNumber - 1));
$("heat").addEventListener("change", loadHeat);
$("toggle").addEventListener("click", () => toggle(chosen()));
$("only").addEventListener("click", () => keepOn((rank) => rank === chosen()));
$("all-on").addEventListener("click", () => keepOn(() => true));
$("all-off").addEventListener("click", () => keepOn(() => false));
addEventListener("paste", (event) => sendFirst(event.clipboardData.files));
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", kind === "dragover");
    if (kind === "drop") sendFirst(event.dataTransfer.files);
  });
}

$("about").textContent = model.title;
document.title = `reconet: ${model.title}`;
$("facts").replaceChildren(...model.facts.flatMap(({ name, value }) =>
  [make("dt", { textContent: name }), make("dd", { textContent: value })]));
const { about, examples } = await requestJson("/api/examples");
$("examples-about").textContent = about;
$("examples").replaceChildren(...examples.map(({ name, url }) => {
  const button = make("button", { type: "button" }, make("img", { src: url, alt: name, loading: "lazy" }));
  button.addEventListener("click", async () => send(await (await fetch(url)).blob()));
  return button;
}));
document.body.dataset.ready = "yes";
