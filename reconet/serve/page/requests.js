// Send requests to the server, show that one is open, and show errors.

export const $ = (id) => document.getElementById(id);

// Send a request and return its JSON answer.
export async function requestJson(url, options = {}) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail || `The server answered ${response.status}.`);
}

export function loadImage(url) {
  return new Promise((resolve, reject) => {
    const loaded = new Image();
    loaded.onload = () => resolve(loaded);
    loaded.onerror = () => reject(new Error("The server does not keep this image any more. Send it again."));
    loaded.src = url;
  });
}

// Do some work with the server. Newer work aborts older work, whose results are dropped.
let newest = null; // the AbortController of the newest work
export async function latest(work) {
  newest?.abort();
  const own = (newest = new AbortController());
  const current = () => newest === own;
  $("progress").hidden = false;
  $("frame").classList.add("busy");
  showProblem("");
  try {
    await work(own.signal, current);
  } catch (error) {
    if (current() && error.name !== "AbortError") showProblem(error.message);
  } finally {
    if (current()) {
      $("progress").hidden = true;
      $("frame").classList.remove("busy");
    }
  }
}

export function showProblem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}
