// The map of hosts: one canvas as large as the view. Cells are arithmetic, not elements. Their colours are those of the
// legend, and so of the style sheet.
import { show } from "./fragments.js";

const $ = id => document.getElementById(id);
const box = $("map"), canvas = box.querySelector("canvas"), pen = canvas.getContext("2d"), said = $("said"), tip = $("tip");

const TOPS = [1, 20, 40, 60, 80, 90, 99, Infinity];   // a share below TOPS[n] percent is in class n
const RANGES = ["0", "1–19", "20–39", "40–59", "60–79", "80–89", "90–98", "99+"];
const DISABLED = 8, DOWN = 9, NONE = 10;
const CLASSES = [...RANGES.map((_, n) => `r${n}`), "off", "down", "none"];
const NAMES = [...RANGES.map(range => `${range} %`), "disabled", "down", "has none"];
const STATES = ["up", "disabled", "down"];

// Lengths in CSS pixels. A cell shows its value from SHOWS_VALUE on, and its name from SHOWS_NAME on.
const ZONE_HEIGHT = 31, LABEL_HEIGHT = 16, GAP = 14, BELOW = 7, MARGIN = 12;
const SMALLEST = 4, LARGEST = 96, FITTED = 48, SHOWS_VALUE = 30, SHOWS_NAME = 60, SHOWS_CROSS = 6;
const FADED = .13, FONT = "system-ui, sans-serif";

let data;                // columns of all hosts, as /hosts/map sends them
let words;               // host → what the filter searches
let bins, found;         // host → its class; 1 if the filter and the legend leave it
let groups;              // the aggregates, each with its hosts
let blocks, heads, place_of;   // where groups, titles of zones and hosts are
let colours;
let only = -1;           // the class that the legend has chosen
let pitch = 0, rows = 12, at = -1, is_fitted = true;

// --- which hosts, in which colour --------------------------------------------------------------------------------------

function class_of(host) {
  if (data.state[host] === 2) return DOWN;
  if (data.state[host] === 1) return DISABLED;
  const share = data.columns[$("by").value][host];
  return share < 0 ? NONE : TOPS.findIndex(top => share < top);
}

function sort() {
  const wanted = $("q").value.toLowerCase().split(/\s+/).filter(Boolean);
  const counts = new Array(CLASSES.length).fill(0), hosts = data.names.length;
  let left = 0;
  for (let host = 0; host < hosts; host++) {
    bins[host] = class_of(host);
    const fits = wanted.every(word => words[host].includes(word));
    if (fits) counts[bins[host]]++;
    found[host] = fits && (only < 0 || only === bins[host]) ? 1 : 0;
    left += found[host];
  }
  $("count").value = left === hosts ? "" : `${left.toLocaleString("en")} of ${hosts.toLocaleString("en")}`;
  show_counts(counts);
}

function show_counts(counts) {
  const most = Math.max(...counts);
  $("legend").querySelectorAll("button").forEach((button, n) => {
    button.querySelector(".bar").style.height = `${counts[n] && Math.max(2, Math.sqrt(counts[n] / most) * 32)}px`;
    button.querySelector("b").textContent = counts[n].toLocaleString("en");
    button.setAttribute("aria-pressed", only === n);
    button.hidden = n === NONE && !counts[n];
  });
}

// --- where ---------------------------------------------------------------------------------------------------------------

// Zones lie below each other; in a zone, aggregates as wide as their hosts need, column by column.
function arrange(width, size, tall) {
  const placed = [], titles = [], most = Math.max(1, Math.floor(width / size));
  let y = 0;
  data.zones.forEach((name, zone) => {
    const title = { y, text: name, hosts: 0 };
    titles.push(title);
    y += ZONE_HEIGHT;
    let x = 0, line = 0;
    for (const group of groups.filter(each => each.zone === zone)) {
      const count = group.members.length;
      title.hosts += count;
      const deep = Math.max(Math.min(tall, Math.max(1, Math.floor(count / 2))), Math.ceil(count / most));
      const wide = Math.ceil(count / deep) * size;
      if (x && x + wide > width) { x = 0; y += line; line = 0; }
      placed.push({ ...group, x, y: y + LABEL_HEIGHT, w: wide, deep, h: deep * size });
      line = Math.max(line, deep * size + LABEL_HEIGHT + BELOW);
      x += wide + GAP;
    }
    y += line;
  });
  return { placed, titles, height: y };
}

function fit(width, room) {   // the largest cells with which all hosts are in view
  for (let size = FITTED; size >= SMALLEST; size -= size > 24 ? 4 : .5)
    for (const tall of [6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20])
      if (arrange(width, size, tall).height <= room) return [size, tall];
  return [SMALLEST, 12];
}

function lay_out() {
  const width = box.clientWidth - 2 * MARGIN;
  if (is_fitted) {
    [pitch, rows] = fit(width, box.clientHeight - 8);
    if (pitch <= 5 && innerWidth < 700) [pitch, rows] = [7, 14];
  }
  const { placed, titles, height } = arrange(width, pitch, rows);
  [blocks, heads] = [placed, titles];
  place_of = new Map(blocks.flatMap((block, n) => block.members.map((host, k) => [host, [n, k]])));
  $("room").style.height = `${height + 8}px`;
}

function corner_of(host) {
  const [n, k] = place_of.get(host), block = blocks[n];
  return [MARGIN + block.x + Math.floor(k / block.deep) * pitch, block.y + k % block.deep * pitch];
}

function host_at(event) {
  const frame = box.getBoundingClientRect();
  const x = event.clientX - frame.left - MARGIN, y = event.clientY - frame.top + box.scrollTop;
  const block = blocks.find(b => x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + b.h);
  if (!block) return -1;
  return block.members[Math.floor((x - block.x) / pitch) * block.deep + Math.floor((y - block.y) / pitch)] ?? -1;
}

// --- drawing -------------------------------------------------------------------------------------------------------------

function paint() {   // the colours of the present theme
  const swatches = [...$("legend").querySelectorAll(".bar")].map(bar => getComputedStyle(bar));
  colours = swatches.map(s => s.backgroundColor === "rgba(0, 0, 0, 0)" ? s.borderTopColor : s.backgroundColor);
  colours.on = swatches.map(s => s.color);
  colours.text = getComputedStyle(box).color;
  colours.dim = getComputedStyle(said).color;
}

function resize_canvas() {
  const width = box.clientWidth, height = box.clientHeight, ratio = devicePixelRatio;
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    canvas.style.marginBottom = `-${height}px`;
  }
  pen.setTransform(ratio, 0, 0, ratio, MARGIN * ratio, -box.scrollTop * ratio);
  pen.clearRect(-MARGIN, box.scrollTop, width, height);
}

function draw() {
  const top = box.scrollTop, bottom = top + box.clientHeight;
  const size = pitch - (pitch > 5 ? Math.min(3, pitch / 7) : .6), round = pitch > 7 ? Math.min(6, pitch / 6) : 0;
  resize_canvas();
  const paths = [0, 1].map(() => CLASSES.map(() => new Path2D())), inscribed = [];
  for (const block of blocks) {
    if (block.y + block.h < top || block.y - LABEL_HEIGHT > bottom) continue;
    block.members.forEach((host, n) => {
      const x = block.x + Math.floor(n / block.deep) * pitch, y = block.y + n % block.deep * pitch;
      if (y > bottom || y + pitch < top) return;
      const path = paths[found[host]][bins[host]];
      if (round) path.roundRect(x, y, size, size, round); else path.rect(x, y, size, size);
      if (bins[host] === DOWN || pitch >= SHOWS_VALUE) inscribed.push([host, x, y]);
    });
  }
  draw_cells(paths);
  for (const [host, x, y] of inscribed) inscribe(host, x, y, size);
  draw_titles();
  draw_ring();
}

function draw_cells(paths) {
  for (const is_found of [0, 1]) {
    pen.globalAlpha = is_found ? 1 : FADED;
    paths[is_found].forEach((path, n) => {
      if (n === DISABLED || n === NONE) {
        pen.strokeStyle = colours[n];
        pen.lineWidth = n === DISABLED ? 1.2 : .6;
        pen.stroke(path);
      } else {
        pen.fillStyle = colours[n];
        pen.fill(path);
      }
    });
  }
}

function inscribe(host, x, y, size) {
  const bin = bins[host];
  pen.globalAlpha = found[host] ? 1 : FADED;
  if (bin === DOWN && size >= SHOWS_CROSS) draw_cross(x, y, size);
  if (pitch < SHOWS_VALUE) return;
  pen.fillStyle = bin === DISABLED || bin === NONE ? colours.dim : colours.on[bin];
  const share = data.columns[$("by").value][host];
  pen.font = `600 ${Math.min(16, size / 3)}px ${FONT}`;
  if (bin < DOWN && share >= 0) pen.fillText(share, x + size * .14, y + size - size * .16);
  if (size < SHOWS_NAME) return;
  pen.font = `10px ${FONT}`;
  pen.fillText(data.names[host], x + size * .14, y + 18, size * .76);
}

function draw_cross(x, y, size) {
  const inset = size * .28;
  pen.strokeStyle = colours.on[DOWN];
  pen.lineWidth = Math.max(1, size / 9);
  pen.beginPath();
  pen.moveTo(x + inset, y + inset);
  pen.lineTo(x + size - inset, y + size - inset);
  pen.moveTo(x + size - inset, y + inset);
  pen.lineTo(x + inset, y + size - inset);
  pen.stroke();
}

function draw_titles() {
  pen.globalAlpha = 1;
  for (const title of heads) {
    pen.font = `600 14px ${FONT}`;
    pen.fillStyle = colours.text;
    pen.fillText(title.text, 0, title.y + 20);
    const x = pen.measureText(title.text).width + 8;
    pen.font = `12px ${FONT}`;
    pen.fillStyle = colours.dim;
    pen.fillText(`${title.hosts.toLocaleString("en")} ${title.hosts === 1 ? "host" : "hosts"}`, x, title.y + 20);
  }
  pen.font = `11px ${FONT}`;
  pen.fillStyle = colours.dim;
  for (const block of blocks) pen.fillText(block.name, block.x, block.y - 5, Math.max(block.w, 34));
}

function draw_ring() {
  $("ring").hidden = at < 0;
  if (at < 0) return;
  const [x, y] = corner_of(at), style = $("ring").style;
  [style.left, style.top] = [`${x - 3}px`, `${y - 3}px`];
  style.width = style.height = `${pitch + 4}px`;
}

// --- pointing, opening, zooming --------------------------------------------------------------------------------------------

function describe(host) {
  const group = data.aggregates[data.in_aggregate[host]], by = $("by");
  const shares = [...by.options].filter(option => data.columns[option.value][host] >= 0)
    .map(option => `${option.text} ${data.columns[option.value][host]} %`);
  return [data.names[host], data.zones[group.zone], group.name, STATES[data.state[host]], shares.join(", ")].filter(Boolean);
}

function point(host, aloud) {
  if (host === at) return;
  at = host;
  draw_ring();
  if (host >= 0 && aloud) said.textContent = describe(host).join(" · ");
}

function hover(event) {
  const host = host_at(event);
  point(host);
  tip.hidden = host < 0;
  if (host < 0) return;
  if (tip.dataset.host !== data.names[host]) {
    tip.dataset.host = data.names[host];
    tip.replaceChildren(...describe(host).map((text, n) => {
      const line = document.createElement(n ? "span" : "b");
      line.textContent = text;
      return line;
    }));
  }
  const card = box.parentElement.getBoundingClientRect(), x = event.clientX - card.left, y = event.clientY - card.top;
  const is_below = y + 18 + tip.offsetHeight <= card.height;
  tip.style.left = `${Math.min(x + 14, card.width - tip.offsetWidth - 8)}px`;
  tip.style.top = `${is_below ? y + 18 : y - tip.offsetHeight - 12}px`;
}

async function open(host, by_keyboard) {
  if (host < 0) return;
  point(host, true);
  await show(`/hosts/by-name/${encodeURIComponent(data.names[host])}`, $("panel"));
  history.replaceState(null, "", `?host=${encodeURIComponent(data.names[host])}`);
  if (by_keyboard) $("panel").querySelector("h2")?.focus();
}

function zoom(to, y = box.clientHeight / 2) {   // what is under the pointer stays there
  const anchor = at >= 0 ? at : blocks.find(block => block.y + block.h > box.scrollTop + y)?.members[0] ?? 0;
  const before = corner_of(anchor)[1] - box.scrollTop;
  is_fitted = false;
  pitch = Math.max(SMALLEST, Math.min(LARGEST, to));
  lay_out();
  box.scrollTop = corner_of(anchor)[1] - before;
  draw();
}

function step(from, by) {   // the next host that the filter leaves
  let [n, k] = place_of.get(from);
  for (let tries = 0; tries < data.names.length; tries++) {
    k += by;
    if (k < 0 || k >= blocks[n].members.length) {
      n += k < 0 ? -1 : 1;
      if (!blocks[n]) return from;
      k = by < 0 ? blocks[n].members.length - 1 : 0;
    }
    if (found[blocks[n].members[k]]) return blocks[n].members[k];
  }
  return from;
}

function move(host) {
  point(host, true);
  const y = corner_of(host)[1];
  if (y < box.scrollTop + 40 || y > box.scrollTop + box.clientHeight - pitch * 2) box.scrollTop = y - box.clientHeight / 2;
}

function on_key(event) {
  if (!data?.names.length || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" && at >= 0) return void open(at, true);
  if (event.key === "+" || event.key === "-") return zoom(pitch * (event.key === "+" ? 1.4 : .7));
  if (!event.key.startsWith("Arrow")) return;
  event.preventDefault();
  if (at < 0) return move(blocks.flatMap(block => block.members).find(host => found[host]) ?? blocks[0].members[0]);
  const { deep } = blocks[place_of.get(at)[0]];
  move(step(at, { ArrowDown: 1, ArrowUp: -1, ArrowRight: deep, ArrowLeft: -deep }[event.key]));
}

// --- data and events -----------------------------------------------------------------------------------------------------

const again = () => { sort(); draw(); }, anew = () => { lay_out(); draw(); };

async function load() {
  const answer = await fetch("/hosts/map", { headers: { Fragment: "1" } });
  if (answer.status === 401) return location.assign(answer.headers.get("Location") ?? "/sign-in");
  data = await answer.json();
  words = data.names.map((_, host) => describe(host).slice(0, 4).join(" ").toLowerCase());
  [bins, found] = [new Uint8Array(words.length), new Uint8Array(words.length)];
  groups = data.aggregates.map(each => ({ ...each, members: [] }));
  data.in_aggregate.forEach((group, host) => groups[group].members.push(host));
}

function make_legend() {
  $("legend").replaceChildren(...CLASSES.map((name, n) => {
    const button = document.createElement("button"), column = document.createElement("span");
    const bar = document.createElement("i"), label = document.createElement("span");
    button.type = "button";
    column.className = "column";
    bar.className = `bar ${name}`;
    column.append(bar);
    label.textContent = NAMES[n];
    button.append(column, label, document.createElement("b"));
    button.addEventListener("click", () => { only = only === n ? -1 : n; again(); });
    return button;
  }));
}

function apply(changes) {   // new values of some hosts
  changes.rows.forEach((host, n) => {
    data.state[host] = changes.state[n];
    for (const name in changes.columns) data.columns[name][host] = changes.columns[name][n];
  });
  again();
}

make_legend();
$("filters").addEventListener("submit", event => event.preventDefault());
for (const id of ["q", "by"]) $(id).addEventListener("input", () => data && again());
$("in").addEventListener("click", () => zoom(pitch * 1.5));
$("out").addEventListener("click", () => zoom(pitch / 1.5));
$("fit").addEventListener("click", () => { is_fitted = true; box.scrollTop = 0; anew(); });
box.addEventListener("scroll", () => data && draw(), { passive: true });
box.addEventListener("keydown", on_key);
box.addEventListener("pointermove", event => data && event.pointerType === "mouse" && hover(event));
box.addEventListener("pointerleave", () => { tip.hidden = true; });
box.addEventListener("click", event => data && open(host_at(event)));
box.addEventListener("wheel", event => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(pitch * Math.exp(-event.deltaY / 300), event.offsetY);
}, { passive: false });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { paint(); draw(); });
addEventListener("themechange", () => { paint(); draw(); });
addEventListener("panelclose", () => history.replaceState(null, "", location.pathname));
$("live").addEventListener("stale", async () => { await load(); lay_out(); again(); });
$("live").addEventListener("hosts", event => { if (data) apply(event.detail); box.dataset.heard = "1"; });

await load();
const asked = new URLSearchParams(location.search);
$("q").value = asked.get("q") ?? "";
paint();
lay_out();
again();
new ResizeObserver(anew).observe(box);
const named = data.names.indexOf(asked.get("host"));
if (named >= 0) open(named);
box.dataset.ready = performance.now().toFixed(0);
