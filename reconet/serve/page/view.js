// The view: the image with its classes as an overlay, the legend, and the pixel under the pointer.
// Class and probability of every pixel come in one PNG, so that pointing needs no request.

import { $, requestJson } from "./requests.js";

export const model = await requestJson("/api/model");
export const canvas = $("canvas");
const context = canvas.getContext("2d");
const tint = document.createElement("canvas"), outline = document.createElement("canvas");

export const state = {
  id: null, // of the image at the server
  width: 0, height: 0,
  image: null, heat: null, // images to draw
  original: null, // class and probability of each pixel, as predicted
  baseline: null, // the same with all ranks at one scale: what changes are counted from
  current: null, // the same with the ranks that are on
  // Classes that are not drawn: at first those in black, which is the colour of background.
  hidden: new Set(model.classes.flatMap(({ colour }, k) => (colour.some(Boolean) ? [] : [k]))),
  ranks: [], off: new Set(), // ranks, strongest first; numbers of those switched off
  position: null, // of the pixel whose class is shown: [x, y]
};

export function showImage(info, image, predicted) {
  Object.assign(state, { id: info.id, width: info.view_width, height: info.view_height, image });
  Object.assign(state, { original: predicted, baseline: predicted, current: predicted });
  Object.assign(state, { heat: null, ranks: [], position: null });
  state.off.clear();
  for (const each of [canvas, tint, outline]) [each.width, each.height] = [state.width, state.height];
  // As large as the column and the window allow, but tiny images grow at most 6 times.
  const tall = innerHeight * (innerWidth < 900 ? 0.5 : 0.72); // a phone shows the ranks below it
  const most = Math.min(6 * state.width, (tall * state.width) / state.height);
  $("frame").style.width = `${Math.max(160, Math.round(most))}px`;
  describe();
}

export function pixels(hover) {
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [hover.naturalWidth, hover.naturalHeight];
  const reader = sheet.getContext("2d", { willReadFrequently: true });
  reader.drawImage(hover, 0, 0);
  return reader.getImageData(0, 0, sheet.width, sheet.height).data; // class, probability, 0, 255
}

export function describe() {
  const count = new Array(model.classes.length).fill(0);
  for (let i = 0; i < state.current.length; i += 4) count[state.current[i]]++;
  const total = state.width * state.height;
  const order = count.map((n, k) => [n, k]).filter(([n]) => n).sort((a, b) => b[0] - a[0]);
  $("legend").replaceChildren(...order.map(([n, k]) => legendLine(k, n / total)));
  const absent = model.classes.filter((_, k) => !count[k]).map((one) => one.name);
  $("absent").textContent = absent.length ? `Not predicted: ${absent.join(", ")}.` : "";
  const most = order.slice(0, 5).map(([n, k]) => `${model.classes[k].name} ${percent(n / total)}`);
  canvas.setAttribute("aria-label", `Image of ${state.width} by ${state.height} pixels: ${most.join(", ")}`);
  paint();
  moveTo(state.position);
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
  const lines = brush.createImageData(state.width, state.height);
  const { current, baseline, hidden, width } = state, onlyChanged = $("only-changed").checked;
  for (let i = 0; i < current.length; i += 4) {
    const k = current[i], below = current[i + 4 * width] ?? k;
    const right = (i / 4 + 1) % width ? current[i + 4] : k;
    if ((right !== k || below !== k) && !onlyChanged && ![k, right, below].every((one) => hidden.has(one))) {
      lines.data.fill(255, i, i + 4); // a thin white line between regions
    }
    if (hidden.has(k) || (onlyChanged && k === baseline[i])) continue;
    [sheet.data[i], sheet.data[i + 1], sheet.data[i + 2]] = model.classes[k].colour;
    sheet.data[i + 3] = 255;
  }
  brush.putImageData(sheet, 0, 0);
  outline.getContext("2d").putImageData(lines, 0, 0);
  draw();
}

export function draw() {
  if (!state.image) return;
  const opacity = $("opacity").valueAsNumber / 100;
  $("opacity-shown").textContent = percent(opacity, 0);
  context.globalAlpha = 1;
  context.drawImage(state.image, 0, 0, state.width, state.height);
  const heat = $("heat").checked && state.heat;
  context.globalAlpha = heat ? 0.75 : opacity;
  context.drawImage(heat || tint, 0, 0, state.width, state.height);
  if (heat || !opacity) return;
  context.globalAlpha = 1;
  context.drawImage(outline, 0, 0);
}

// Show class and probability of the pixel at a position, or of none.
export function moveTo(position) {
  state.position = position;
  $("cross").hidden = !position;
  document.querySelector("#legend .here")?.classList.remove("here");
  if (!position) return $("reading").replaceChildren("–");
  const [x, y] = position, i = 4 * (y * state.width + x);
  const k = state.current[i], { name, colour } = model.classes[k];
  const figure = make("span", { textContent: percent(state.current[i + 1] / 255, 0) });
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
export const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
