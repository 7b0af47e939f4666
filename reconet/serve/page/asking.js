// Questions to the server, and what is shown while they are open or when they fail.

export const $ = (id) => document.getElementById(id);

export async function ask(url, options = {}) {
  let answer;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; is it still running?");
  }
  if (answer.ok) return answer.json();
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.detail || `The server answered ${answer.status}.`);
}

export function loadImage(url) {
  return new Promise((resolve, reject) => {
    const loaded = new Image();
    loaded.onload = () => resolve(loaded);
    loaded.onerror = () => reject(new Error("The image is not at the server any more; send it again."));
    loaded.src = url;
  });
}

let turn = null; // of the newest question; older ones are forgotten
export async function latest(work) {
  turn?.abort();
  const mine = (turn = new AbortController());
  const current = () => turn === mine;
  $("progress").hidden = false;
  $("frame").classList.add("busy");
  complain("");
  try {
    await work(mine.signal, current);
  } catch (error) {
    if (current() && error.name !== "AbortError") complain(error.message);
  } finally {
    if (current()) {
      $("progress").hidden = true;
      $("frame").classList.remove("busy");
    }
  }
}

export function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}
