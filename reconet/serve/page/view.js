// What is seen: the image, the classes of its pixels over it, the legend, the pixel that is read.
// Class and probability of every pixel come in one PNG, so that pointing needs no request.

import { $, ask } from "./asking.js";

export const model = await ask("/api/model");
export const canvas = $("canvas");
const pen = canvas.getContext("2d");
const tint = document.createElement("canvas");

export const state = {
  id: null, // the name of the image at the server
  width: 0, height: 0,
  image: null, heat: null, // images to draw
  original: null, // class and probability of each pixel, as predicted ...
  baseline: null, // ... as the rank explorer has them with all ranks, at one scale ...
  shown: null, // ... and with the ranks that are on
  hidden: new Set(), // classes that are not drawn
  ranks: [], off: new Set(), // strongest first; numbers of those switched off
  at: null, // the pixel that is read: [x, y]
};

export function begin(told, image, found) {
  Object.assign(state, { id: told.id, width: told.view_width, height: told.view_height, image });
  Object.assign(state, { original: found, baseline: found, shown: found, heat: null, ranks: [], at: null });
  state.off.clear();
  for (const each of [canvas, tint]) [each.width, each.height] = [state.width, state.height];
  // As large as fits into the column and the window, but no blow-up of tiny images beyond 6 times.
  const tall = innerHeight * (innerWidth < 900 ? 0.5 : 0.72); // a phone shows the ranks below it
  const most = Math.min(6 * state.width, (tall * state.width) / state.height);
  $("frame").style.width = `${Math.max(160, Math.round(most))}px`;
  describe();
}

export function pixels(hover) {
  const page = document.createElement("canvas");
  [page.width, page.height] = [hover.naturalWidth, hover.naturalHeight];
  const brush = page.getContext("2d", { willReadFrequently: true });
  brush.drawImage(hover, 0, 0);
  return brush.getImageData(0, 0, page.width, page.height).data; // class, probability, 0, 255
}

export function describe() {
  const count = new Array(model.classes.length).fill(0);
  for (let i = 0; i < state.shown.length; i += 4) count[state.shown[i]]++;
  const total = state.width * state.height;
  const order = count.map((n, k) => [n, k]).filter(([n]) => n).sort((a, b) => b[0] - a[0]);
  $("legend").replaceChildren(...order.map(([n, k]) => legendLine(k, n / total)));
  const absent = model.classes.filter((_, k) => !count[k]).map((one) => one.name);
  $("absent").textContent = absent.length ? `Not in this image: ${absent.join(", ")}.` : "";
  const most = order.slice(0, 5).map(([n, k]) => `${model.classes[k].name} ${percent(n / total)}`);
  canvas.setAttribute("aria-label", `Image of ${state.width} by ${state.height} pixels: ${most.join(", ")}`);
  paint();
  read(state.at);
}

function legendLine(k, share) {
  const { name, colour } = model.classes[k];
  const box = make("input", { type: "checkbox", checked: !state.hidden.has(k) });
  box.addEventListener("change", () => {
    box.checked ? state.hidden.delete(k) : state.hidden.add(k);
    paint();
  });
  const bar = make("span", { className: "bar" });
  bar.style.width = `${100 * share}%`;
  bar.style.background = swatch(colour).style.background;
  const title = make("span", { className: "name", textContent: name }, bar);
  const figure = make("span", { className: "figure", textContent: percent(share) });
  const line = make("li", {}, make("label", {}, box, swatch(colour), title, figure));
  line.dataset.label = k;
  return line;
}

export function paint() {
  const brush = tint.getContext("2d"), sheet = brush.createImageData(state.width, state.height);
  const { shown, baseline, hidden } = state, onlyChanged = $("only-changed").checked;
  for (let i = 0; i < shown.length; i += 4) {
    const k = shown[i];
    if (hidden.has(k) || (onlyChanged && k === baseline[i])) continue;
    [sheet.data[i], sheet.data[i + 1], sheet.data[i + 2]] = model.classes[k].colour;
    sheet.data[i + 3] = 255;
  }
  brush.putImageData(sheet, 0, 0);
  draw();
}

export function draw() {
  if (!state.image) return;
  const opacity = $("opacity").valueAsNumber / 100;
  $("opacity-shown").textContent = percent(opacity, 0);
  pen.globalAlpha = 1;
  pen.drawImage(state.image, 0, 0, state.width, state.height);
  const heat = $("heat").checked && state.heat;
  pen.globalAlpha = heat ? 0.75 : opacity;
  pen.drawImage(heat || tint, 0, 0, state.width, state.height);
}

export function read(place) {
  state.at = place;
  $("cross").hidden = !place;
  document.querySelector("#legend .here")?.classList.remove("here");
  if (!place) return $("reading").replaceChildren("–");
  const [x, y] = place, i = 4 * (y * state.width + x);
  const k = state.shown[i], { name, colour } = model.classes[k];
  const figure = make("span", { textContent: percent(state.shown[i + 1] / 255, 0) });
  $("reading").replaceChildren(swatch(colour), make("span", { textContent: name }), figure,
    make("span", { textContent: `at ${x}, ${y}` }));
  document.querySelector(`#legend [data-label="${k}"]`)?.classList.add("here");
  $("cross").style.left = `${(100 * (x + 0.5)) / state.width}%`;
  $("cross").style.top = `${(100 * (y + 0.5)) / state.height}%`;
}

export function make(tag, values, ...children) {
  const element = Object.assign(document.createElement(tag), values);
  element.append(...children);
  return element;
}

function swatch([r, g, b]) {
  const square = make("span", { className: "swatch" });
  square.style.background = `rgb(${r} ${g} ${b})`;
  return square;
}

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
export const mega = (bytes) => (bytes / 1e6).toFixed(1);
