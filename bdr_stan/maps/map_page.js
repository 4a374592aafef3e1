// Layers of pixels are decoded and coloured once each; moving and zooming redraw their pictures.
const data = JSON.parse(document.getElementById("map-data").textContent);
const {rows, columns, aspect} = data; // on the map a pixel is 1 high and `aspect` wide
const find = id => document.getElementById(id);
const canvas = find("map"), context = canvas.getContext("2d");
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const state = {layer: 0, time: 0, place: null, district: -1};

// ---- values

const kept = new Map();
function keep(name, make) {
  if (!kept.has(name)) kept.set(name, make());
  return kept.get(name);
}

async function decode(text) {
  const packed = atob(text), bytes = new Uint8Array(packed.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new DecompressionStream("deflate"), writer = stream.writable.getWriter();
  writer.write(bytes);
  writer.close();
  const planes = new Uint8Array(await new Response(stream.readable).arrayBuffer());
  const n = rows * columns, codes = new Uint16Array(n);
  for (let i = 0, code = 0; i < n; i++) {
    if (i % columns === 0) code = 0;
    codes[i] = code = code + (planes[i] << 8) + planes[n + i] & 0xffff;
  }
  return codes;
}

const codesOf = (time, layer) =>
  keep(`codes ${time} ${layer}`, () => decode(data.codes[time][layer]));

function valueOf(layer, code) {
  const {low, high, log} = data.layers[layer], position = (code - 1) / 65534;
  if (code === 0) return null;
  return log ? low * (high / low) ** position : low + (high - low) * position;
}

function textOf(layer, code) {
  const value = valueOf(layer, code);
  if (value === null) return "no data";
  if (data.layers[layer].probability) return `${(100 * value).toFixed(1)}%`;
  return String(Number(value.toPrecision(4)));
}

// ---- pictures of layers

const shades = data.colours.map(colour => parseInt(colour.slice(1), 16));

// Colours by code as 0xAABBGGRR; no data is transparent.
function paletteOf(layer) {
  const [first, last] = data.layers[layer].colours, palette = new Uint32Array(65536);
  for (let code = 1; code < 65536; code++) {
    const place = clamp(((code - 1) / 65534 - first) / (last - first), 0, 1);
    const shade = shades[Math.round(place * (shades.length - 1))];
    palette[code] = 0xff000000 | (shade & 255) << 16 | shade & 0xff00 | shade >> 16;
  }
  return palette;
}

const pictureOf = (time, layer) => keep(`picture ${time} ${layer}`, async () => {
  const codes = await codesOf(time, layer), image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer), palette = paletteOf(layer);
  const picture = document.createElement("canvas");
  for (let i = 0; i < codes.length; i++) pixels[i] = palette[codes[i]];
  picture.width = columns;
  picture.height = rows;
  picture.getContext("2d").putImageData(image, 0, 0);
  return picture;
});

// ---- borders

const paths = data.districts.map(district => {
  const path = new Path2D();
  for (const ring of district.rings) {
    for (let i = 0; i < ring.length; i += 2) path[i ? "lineTo" : "moveTo"](ring[i], ring[i + 1]);
    path.closePath();
  }
  return path;
});
const borders = new Path2D();
for (const path of paths) borders.addPath(path);

function districtAt(x, y) {
  context.setTransform(1, 0, 0, 1, 0, 0);
  return paths.findIndex(path => context.isPointInPath(path, x, y, "evenodd"));
}

// ---- the view: its centre on the map, and screen pixels per row of the map

const view = {x: columns * aspect / 2, y: rows / 2, scale: 0};
let picture = null, frame = 0;
const wholeScale = () => 0.96 * Math.min(
  canvas.clientWidth / (columns * aspect), canvas.clientHeight / rows);

function draw() {
  frame = 0;
  const ratio = devicePixelRatio, scale = view.scale * ratio;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(
    scale, 0, 0, scale, canvas.width / 2 - view.x * scale, canvas.height / 2 - view.y * scale);
  context.imageSmoothingEnabled = scale < 1;
  if (picture) context.drawImage(picture, 0, 0, columns * aspect, rows);
  context.lineJoin = "round";
  stroke(borders, 2.2, "rgb(0 0 0 / 55%)");
  stroke(borders, 0.9, "rgb(255 255 255 / 90%)");
  if (state.district >= 0) outline(paths[state.district]);
  if (state.place) {
    const square = new Path2D();
    square.rect(Math.floor(state.place.x / aspect) * aspect, Math.floor(state.place.y), aspect, 1);
    outline(square);
  }
  if (canvas.matches(":focus-visible")) {
    const cross = new Path2D(), arm = 9 / view.scale;
    cross.moveTo(view.x - arm, view.y);
    cross.lineTo(view.x + arm, view.y);
    cross.moveTo(view.x, view.y - arm);
    cross.lineTo(view.x, view.y + arm);
    outline(cross);
  }
  drawScaleBar();
}

function stroke(path, width, colour) {
  context.lineWidth = width / view.scale;
  context.strokeStyle = colour;
  context.stroke(path);
}

function outline(path) {
  stroke(path, 5, "black");
  stroke(path, 2.4, "white");
}

function drawScaleBar() {
  const most = 120 * data.metres / view.scale, power = 10 ** Math.floor(Math.log10(most));
  const metres = power * [5, 2, 1].find(each => each * power <= most);
  find("scale-bar").style.width = `${metres / data.metres * view.scale}px`;
  find("scale-bar").textContent = metres < 1000 ? `${metres} m` : `${metres / 1000} km`;
}

function redraw() {
  if (view.scale) frame ||= requestAnimationFrame(draw);
}

function move(dx, dy) {
  view.x = clamp(view.x - dx / view.scale, 0, columns * aspect);
  view.y = clamp(view.y - dy / view.scale, 0, rows);
  redraw();
}

// About the point that is (dx, dy) screen pixels from the middle, which stays in its place.
function zoom(factor, dx = 0, dy = 0) {
  const whole = wholeScale(), before = view.scale;
  view.scale = clamp(before * factor, whole / 2, Math.max(60, 8 * whole));
  move(dx - dx * view.scale / before, dy - dy * view.scale / before);
}

function showAll() {
  Object.assign(view, {x: columns * aspect / 2, y: rows / 2, scale: wholeScale()});
  redraw();
}

function showDistrict(k) {
  const xs = [], ys = [];
  for (const ring of data.districts[k].rings)
    ring.forEach((value, i) => (i % 2 ? ys : xs).push(value));
  const [left, top] = [xs, ys].map(each => each.reduce((a, b) => Math.min(a, b)));
  const [right, bottom] = [xs, ys].map(each => each.reduce((a, b) => Math.max(a, b)));
  Object.assign(view, {x: (left + right) / 2, y: (top + bottom) / 2});
  zoom(0.7 / view.scale * Math.min(
    canvas.clientWidth / (right - left), canvas.clientHeight / (bottom - top)));
}

// ---- the selected place

function element(tag, text, className = "") {
  return Object.assign(document.createElement(tag), {textContent: text, className});
}

function list(pairs) {
  const made = element("dl", "");
  for (const [name, text] of pairs) made.append(element("dt", name), element("dd", text));
  return made;
}

function coordinates({x, y}) {
  const at = [
    data.x + data.dx * (Math.floor(x / aspect) + 0.5), data.y + data.dy * (Math.floor(y) + 0.5)];
  return data.axes.map((axis, k) => `${axis} ${Number(at[k].toPrecision(8))}`).join(", ");
}

async function pixelBlocks(time, place) {
  const column = Math.floor(place.x / aspect), row = Math.floor(place.y);
  const inside = column >= 0 && column < columns && row >= 0 && row < rows;
  const codes = await Promise.all(data.layers.map((_, layer) => codesOf(time, layer)));
  const values = codes.map((each, k) => textOf(k, inside ? each[row * columns + column] : 0));
  const pairs = data.readout.map(
    ({title, layers}) => [title, [...new Set(layers.map(k => values[k]))].join(" to ")]);
  const hints = [coordinates(place), data.label].map(text => element("p", text, "hint"));
  return [element("h2", "Pixel"), ...hints, list(pairs)];
}

const tables = [...document.querySelectorAll("#districts table")];
const heads = tables.map(table => [...table.tHead.rows[0].cells].map(cell => cell.textContent));
const tableRows = tables.map(table => [...table.tBodies[0].rows]);
const tableAt = time => Math.min(time, tables.length - 1);

function districtBlocks(time, k) {
  const cells = [...tableRows[tableAt(time)][k].cells].map(cell => cell.textContent);
  const pairs = heads[tableAt(time)].map((name, i) => [name, cells[i]]).slice(1);
  return [element("h2", data.districts[k].name), list(pairs)];
}

async function describe() {
  const {time, place, district} = state;
  const blocks = place ? await pixelBlocks(time, place) : [];
  if (time !== state.time || place !== state.place) return; // another was chosen meanwhile
  if (district >= 0) blocks.push(...districtBlocks(time, district));
  if (blocks.length) find("place").replaceChildren(...blocks);
  redraw();
}

function selectPlace(dx, dy) {
  const place = {x: view.x + dx / view.scale, y: view.y + dy / view.scale};
  Object.assign(state, {place, district: districtAt(place.x, place.y)});
  describe();
}

tableRows.flat().forEach((row, i) => {
  const head = row.cells[0], name = head.textContent, k = i % data.districts.length;
  const button = Object.assign(element("button", name), {type: "button", title: "Show on the map"});
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    Object.assign(state, {place: null, district: k});
    if (data.districts[k].rings.length) showDistrict(k);
    describe();
    canvas.scrollIntoView({block: "nearest"});
  });
});

// ---- layers and times

async function show() {
  const {time, layer} = state, shown = data.layers[layer];
  const drawn = await pictureOf(time, layer);
  if (time !== state.time || layer !== state.layer) return; // another was chosen meanwhile
  picture = drawn;
  find("legend-title").textContent = shown.title;
  find("legend-unit").textContent = shown.unit;
  const [left, right] = shown.beyond.map(each => each ? ".7rem" : "0px");
  find("legend-bar").style.clipPath = `polygon(${left} 0, calc(100% - ${right}) 0, 100% 50%, ` +
    `calc(100% - ${right}) 100%, ${left} 100%, 0 50%)`;
  find("legend-ticks").replaceChildren(...shown.ticks.map(([position, text]) => {
    const tick = element("span", text);
    tick.style.left = `${100 * position}%`;
    return tick;
  }));
  redraw();
}

function showTime(time) {
  state.time = time;
  tables.forEach((table, k) => { table.closest(".block").hidden = k !== tableAt(time); });
  if (data.times.length > 1) {
    find("time-label").textContent = data.times[time];
    find("time").setAttribute("aria-valuetext", data.times[time]);
  }
  show();
  describe();
}

find("legend-bar").style.background =
  `linear-gradient(to right, ${data.colours.filter((_, i) => i % 15 === 0).join(",")})`;
for (const input of document.querySelectorAll("input[name=layer]"))
  input.addEventListener("change", () => {
    state.layer = Number(input.value);
    show();
  });
find("time")?.addEventListener("input", event => showTime(Number(event.target.value)));

// ---- buttons, keys, wheel and fingers

find("zoom-in").addEventListener("click", () => zoom(1.5));
find("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
find("zoom-all").addEventListener("click", showAll);

const keys = {
  ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0),
  ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
  "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: showAll,
  Enter: () => selectPlace(0, 0),
};
canvas.addEventListener("keydown", event => {
  if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key]();
});
canvas.addEventListener("focus", redraw);
canvas.addEventListener("blur", redraw);

// In screen pixels from the middle of the map.
function position(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  zoom(Math.exp(-clamp(event.deltaY, -100, 100) / 300), ...position(event));
}, {passive: false});

const pointers = new Map();
let travelled = 0; // screen pixels since the first finger or button went down
function middleAndSpread() {
  const all = [...pointers.values()], mean = k => all.reduce((s, p) => s + p[k], 0) / all.length;
  const x = mean(0), y = mean(1);
  return {x, y, spread: Math.hypot(all[0][0] - x, all[0][1] - y)};
}

canvas.addEventListener("pointerdown", event => {
  if (pointers.size === 0) travelled = 0;
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, position(event));
});
canvas.addEventListener("pointermove", event => {
  if (!pointers.has(event.pointerId)) return;
  const before = middleAndSpread();
  pointers.set(event.pointerId, position(event));
  const after = middleAndSpread();
  travelled += Math.hypot(after.x - before.x, after.y - before.y, after.spread - before.spread);
  canvas.classList.toggle("moving", travelled > 5);
  move(after.x - before.x, after.y - before.y);
  if (before.spread > 0 && after.spread > 0) zoom(after.spread / before.spread, after.x, after.y);
});
for (const end of ["pointerup", "pointercancel"])
  canvas.addEventListener(end, event => {
    pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
  });
canvas.addEventListener("click", event => {
  if (travelled <= 5) selectPlace(...position(event));
});

// The first size shows the whole map; later ones keep the share of it that is seen.
let whole = 0;
new ResizeObserver(() => {
  canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
  canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
  view.scale = whole ? view.scale * wholeScale() / whole : wholeScale();
  whole = wholeScale();
  if (view.scale) draw();  // at once: a new size has cleared the canvas, which would flicker
}).observe(canvas);
showTime(0);
