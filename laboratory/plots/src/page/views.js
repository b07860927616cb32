// Zoom and hidden series. Drag a rectangle to zoom in, double-click or press 0 to see all. Click a line of the legend, or
// press h at a value, to hide its series; press a to see all series.
const MIN_DRAG_PX = 8;
const ZOOM_STEP = 1.5;
const MAX_ZOOM = 32;
const hidden = new Map();
const whole = new WeakMap();
let dragged = null;
let hasZoomed = false;

function hiddenOf(plot) {
  const id = plot.dataset.figure;
  if (!hidden.has(id)) hidden.set(id, new Set());
  return hidden.get(id);
}

function isHidden(plot, panel, at) {
  return hiddenOf(plot).has(dataOf(plot).entries[panel][at]);
}

// Applies to both drawings of the figure.
function drawHidden(plot) {
  const own = hiddenOf(plot);
  const drawings = [...document.querySelectorAll(".plot")].filter((one) => one.dataset.figure === plot.dataset.figure);
  drawings.flatMap((one) => [...one.querySelectorAll("[data-entry]")]).forEach((group) => {
    const off = own.has(Number(group.dataset.entry));
    group.classList.toggle("off", off);
    if (group.classList.contains("key")) group.setAttribute("aria-pressed", String(!off));
  });
  show(null);
}

function toggle(plot, entry) {
  const own = hiddenOf(plot);
  if (!own.delete(entry)) own.add(entry);
  drawHidden(plot);
}

function wholeOf(svg) {
  if (!whole.has(svg)) {
    const { width, height } = svg.viewBox.baseVal;
    whole.set(svg, { width, height });
  }
  return whole.get(svg);
}

// Shows the part around a place at a magnification, within the drawing. The shape of the part stays that of the whole.
function zoomTo(plot, x, y, factor) {
  const svg = plot.querySelector("svg");
  const all = wholeOf(svg);
  const magnified = Math.min(Math.max(factor, 1), MAX_ZOOM);
  const [width, height] = [all.width / magnified, all.height / magnified];
  const within = (middle, part, most) => Math.min(Math.max(middle - part / 2, 0), most - part);
  svg.setAttribute("viewBox", `${within(x, width, all.width)} ${within(y, height, all.height)} ${width} ${height}`);
  plot.classList.toggle("zoomed", magnified > 1);
  show(null);
}

function onViewKey(plot, key) {
  const svg = plot.querySelector("svg");
  const { x, y, width, height } = svg.viewBox.baseVal;
  const now = wholeOf(svg).width / width;
  const area = shown && shown.plot === plot ? areaOf(plot, shown.panel, shown.at) : { x, y, width, height };
  const [middle, level] = [area.x + area.width / 2, area.y + area.height / 2];
  const entry = shown && shown.plot === plot ? dataOf(plot).entries[shown.panel][shown.at] : -1;
  if (key === "+") zoomTo(plot, middle, level, now * ZOOM_STEP);
  else if (key === "-") zoomTo(plot, middle, level, now / ZOOM_STEP);
  else if (key === "0") zoomTo(plot, middle, level, 1);
  else if (key === "h" && entry >= 0) toggle(plot, entry);
  else if (key === "a") {
    hiddenOf(plot).clear();
    drawHidden(plot);
  }
}

function drawDrag(plot, event) {
  const to = placeOf(plot, event);
  const rect = {
    x: Math.min(dragged.x, to.x), y: Math.min(dragged.y, to.y),
    width: Math.abs(to.x - dragged.x), height: Math.abs(to.y - dragged.y),
  };
  if (Math.max(rect.width, rect.height) * viewOf(plot).scale < MIN_DRAG_PX) return null;
  const svg = plot.querySelector("svg");
  const frame = svg.querySelector(".drag") || svg.appendChild(document.createElementNS(SVG, "rect"));
  frame.setAttribute("class", "drag");
  Object.entries(rect).forEach(([name, value]) => frame.setAttribute(name, value));
  return rect;
}

document.querySelectorAll(".plot").forEach((plot) => {
  plot.querySelectorAll(".key").forEach((key) => {
    key.setAttribute("aria-pressed", "true");
    const name = document.createElementNS(SVG, "title");
    name.textContent = "Click to hide or show";
    key.append(name);
  });
  plot.addEventListener("pointerdown", (event) => {
    hasZoomed = false;
    const isDrag = event.pointerType === "mouse" && event.button === 0 && !event.target.closest(".key");
    if (isDrag) dragged = { plot, ...placeOf(plot, event) };
  });
  plot.addEventListener("pointermove", (event) => {
    if (dragged && dragged.plot === plot && drawDrag(plot, event)) show(null);
  });
  plot.addEventListener("pointerup", (event) => {
    if (!dragged || dragged.plot !== plot) return;
    const rect = drawDrag(plot, event);
    endDrag();
    if (!rect) return;
    hasZoomed = true;
    const all = wholeOf(plot.querySelector("svg"));
    const factor = Math.min(all.width / rect.width, all.height / rect.height);
    zoomTo(plot, rect.x + rect.width / 2, rect.y + rect.height / 2, factor);
  });
  plot.addEventListener("dblclick", () => zoomTo(plot, 0, 0, 1));
});

function endDrag() {
  dragged = null;
  document.querySelectorAll("svg .drag").forEach((frame) => frame.remove());
}
window.addEventListener("pointerup", endDrag);
window.addEventListener("pointercancel", endDrag);
