// The rank explorer: switch ranks on and off, and show what that changes.

import { $, latest, loadImage, requestJson } from "./requests.js";
import { describe, draw, make, percent, pixels, state } from "./view.js";

export function loadRanks() {
  return latest(async (signal) => {
    $("changed").textContent = "Computing the ranks ...";
    try {
      const answer = await requestJson(`/api/images/${state.id}/ranks`, { signal });
      state.ranks = answer.ranks;
      state.baseline = pixels(await loadImage(`data:image/png;base64,${answer.hover_png}`));
    } catch (error) {
      if (error.name !== "AbortError") $("ranks").hidden = true;
      throw error;
    }
    $("switches").replaceChildren(...state.ranks.map(({ rank, share }, order) => {
      const button = make("button", { type: "button", textContent: rank, title: `${percent(share)} of what all ranks do` });
      button.setAttribute("aria-label", `rank ${rank}, ${percent(share)}`);
      button.addEventListener("click", () => { choose(order); toggle(rank); });
      return button;
    }));
    $("kept").max = $("one").max = state.ranks.length;
    $("one").value = 1;
    showRanks();
    document.body.dataset.explored = state.id;
  });
}

function showRanks(change = null) {
  const { ranks, off } = state, order = $("one").valueAsNumber - 1, one = ranks[order];
  [...$("switches").children].forEach((button, i) => {
    button.setAttribute("aria-pressed", !off.has(ranks[i].rank));
    button.classList.toggle("at", i === order);
  });
  $("kept").value = ranks.length - off.size;
  $("kept-shown").textContent = `${ranks.length - off.size} of ${ranks.length} on`;
  $("one-shown").textContent = `rank ${one.rank}`;
  $("one-about").textContent = `${percent(one.share)} of the context in this image, λ = ${one.weight.toPrecision(3)}`;
  $("toggle").textContent = off.has(one.rank) ? "Switch it on" : "Switch it off";
  $("changed").textContent = change ? describeChange(change) : "All ranks are on.";
}

function describeChange({ changed, pixels, by_class }) {
  const most = by_class.map((one) => [one.gained - one.lost, one.name])
    .sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 3).filter(([n]) => n);
  const signed = most.map(([n, name]) => `${name} ${n > 0 ? "+" : "−"}${Math.abs(n).toLocaleString("en")}`);
  const where = signed.length ? `: ${signed.join(", ")}` : "";
  return `${changed.toLocaleString("en")} of ${pixels.toLocaleString("en")} pixels changed (${percent(changed / pixels)})${where}.`;
}

function switchRanks() {
  showSwitches();
  return latest(async (signal, current) => {
    await new Promise((resolve) => setTimeout(resolve, 80)); // a slider sends many values
    if (!current()) return;
    if (!state.off.size) {
      state.current = state.original;
      showRanks();
      return describe();
    }
    const change = await requestJson(`/api/images/${state.id}/ranks`, {
      method: "POST", signal, body: JSON.stringify({ off: [...state.off] }),
      headers: { "Content-Type": "application/json" },
    });
    const without = pixels(await loadImage(`data:image/png;base64,${change.hover_png}`));
    if (!current()) return;
    state.current = without;
    showRanks(change);
    describe();
  });
}

// Show the switches at once. The text about changes waits for the answer.
function showSwitches() {
  const before = $("changed").textContent;
  showRanks();
  $("changed").textContent = before;
}

export function toggle(rank) {
  state.off.has(rank) ? state.off.delete(rank) : state.off.add(rank);
  switchRanks();
}

export function keepOn(isOn) {
  state.off = new Set(state.ranks.filter((one, order) => !isOn(one.rank, order)).map((one) => one.rank));
  switchRanks();
}

export const chosen = () => state.ranks[$("one").valueAsNumber - 1].rank;

export function choose(order) {
  $("one").value = order + 1;
  showSwitches();
  loadHeat();
}

export function loadHeat() {
  if (!$("heat").checked) return draw();
  const rank = chosen();
  return latest(async (_signal, current) => {
    const heat = await loadImage(`/api/images/${state.id}/heat/${rank}.png`);
    if (current()) state.heat = heat;
    draw();
  });
}
