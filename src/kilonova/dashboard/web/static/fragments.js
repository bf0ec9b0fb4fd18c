// Links and forms are plain HTML and work without this file. With it, a link or a GET form that has data-into="#place"
// puts the answer into that place, and an element with data-live="/address" shows the server's events.
const policy = globalThis.trustedTypes?.createPolicy("fragments", { createHTML: html => html }) ?? { createHTML: html => html };
const PAUSE_MS = 120;
const requests = new Map();   // place → its request; a later request aborts it

// html: an answer of this server, which has escaped it
function put(place, html) {
  place.innerHTML = policy.createHTML(html);
}

export async function show(address, place) {
  const url = new URL(address, location.href);
  if (url.origin !== location.origin) throw new TypeError("fragments come from this server only");
  requests.get(place)?.abort();
  const request = new AbortController();
  requests.set(place, request);
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(url, { headers: { Fragment: "1" }, signal: request.signal });
    if (answer.status === 401) return void location.assign(answer.headers.get("Location") ?? "/sign-in");
    if (answer.ok) put(place, await answer.text());
    else place.textContent = `This could not be shown (${answer.status}). Try again.`;
  } catch (error) {
    if (error.name !== "AbortError") place.textContent = "The dashboard does not answer. Try again.";
  } finally {
    if (requests.get(place) === request) {
      requests.delete(place);
      place.removeAttribute("aria-busy");
    }
  }
}

const place_of = element => document.querySelector(element.dataset.into);

function ask(form) {   // the address of the page is that of the question
  const url = new URL(form.action);
  url.search = new URLSearchParams(new FormData(form));
  history.replaceState(null, "", url);
  return show(url, place_of(form));
}

addEventListener("click", event => {
  const link = event.target.closest?.("a[data-into]");
  const opens_elsewhere = event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  if (!link || event.defaultPrevented || opens_elsewhere) return;
  event.preventDefault();
  show(link.href, place_of(link));
});

addEventListener("submit", event => {
  if (!event.target.matches("form[data-into]")) return;
  event.preventDefault();
  ask(event.target);
});

const pauses = new WeakMap();
addEventListener("input", event => {
  const form = event.target.form;
  if (!form?.matches("[data-into]")) return;
  clearTimeout(pauses.get(form));
  pauses.set(form, setTimeout(ask, PAUSE_MS, form));
});

// data-hears: names of events that become events of the element. Browsers open six streams of one site at most, so a
// hidden page has none; when it is shown again, it is told that its data are stale.
function follow(element) {
  let stream;
  const listen = () => {
    if (stream) return;
    stream = new EventSource(element.dataset.live);
    stream.onmessage = event => put(element, event.data);
    for (const name of (element.dataset.hears ?? "").split(" ").filter(Boolean))
      stream.addEventListener(name, event => element.dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) })));
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.close();
      stream = undefined;
    } else if (!stream) {
      listen();
      element.dispatchEvent(new CustomEvent("stale"));
    }
  });
  if (!document.hidden) listen();
}

document.querySelectorAll("[data-live]").forEach(follow);
