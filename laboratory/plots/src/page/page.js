"use strict";
// Tooltips by pointer, touch and keyboard. A click, a tap or Enter holds one, so that its command can be copied.
const tip = document.getElementById("~tip");
const spoken = document.getElementById("~spoken");
const REACH_PX = { mouse: 24, pen: 24, touch: 40 };
const SVG = "http://www.w3.org/2000/svg";
const figures = new Map();
let shown = null;
let held = false;

function dataOf(plot) {
  const id = plot.dataset.figure;
  if (!figures.has(id)) figures.set(id, JSON.parse(document.getElementById(id + "~data").textContent));
  return figures.get(id);
}

function areaOf(plot, panel, at) {
  const data = dataOf(plot);
  const [x, y, width, height] = data.frames[plot.dataset.layout][panel];
  const [left, top, wide, high] = data.panels[panel][at].slice(0, 4).map((part) => part / data.fineness);
  return { x: x + left * width, y: y + top * height, width: wide * width, height: high * height };
}

// The part of the drawing that is shown, and its scale in pixels per unit.
function viewOf(plot) {
  const svg = plot.querySelector("svg");
  const box = svg.getBoundingClientRect();
  const { x, y, width } = svg.viewBox.baseVal;
  return { left: box.left, top: box.top, x, y, scale: box.width / width };
}

function placeOf(plot, event) {
  const view = viewOf(plot);
  return { x: view.x + (event.clientX - view.left) / view.scale, y: view.y + (event.clientY - view.top) / view.scale };
}

function nearest(plot, event) {
  const { x, y } = placeOf(plot, event);
  let best = null;
  let least = (REACH_PX[event.pointerType] || REACH_PX.mouse) / viewOf(plot).scale;
  dataOf(plot).panels.forEach((marks, panel) => marks.forEach((_, at) => {
    if (isHidden(plot, panel, at)) return;
    const area = areaOf(plot, panel, at);
    const right = Math.max(area.x - x, 0, x - area.x - area.width);
    const down = Math.max(area.y - y, 0, y - area.y - area.height);
    const distance = Math.hypot(right, down);
    if (distance < least || (distance === least && distance === 0)) {
      least = distance;
      best = { plot, panel, at };
    }
  }));
  return best;
}

function add(parent, name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return parent.appendChild(element);
}

function fill(mark, strings) {
  const [name, , ...rows] = mark.slice(4);
  tip.replaceChildren();
  if (strings[name]) add(tip, "b", strings[name]);
  const list = add(tip, "dl");
  for (let at = 0; at < rows.length; at += 2) {
    add(list, "dt", strings[rows[at]]);
    add(list, "dd", strings[rows[at + 1]]);
  }
  return [strings[name], ...rows.map((row) => strings[row])].filter(Boolean).join(", ");
}

function addCommand(command) {
  const code = add(tip, "code");
  // Lines break between words, not after the dashes of a flag.
  command.split(" ").forEach((word, at) => {
    if (at > 0) code.append(" ");
    add(code, "span", word);
  });
  if (held) {
    const button = add(tip, "button", "Copy", "copy");
    button.type = "button";
    button.addEventListener("click", () => copy(button, code));
  } else {
    add(tip, "small", "Click or press Enter to hold and copy");
  }
}

function ring(plot, area) {
  document.querySelectorAll("svg .focus").forEach((old) => old.remove());
  const around = document.createElementNS(SVG, "rect");
  const space = area.width || area.height ? 2 : 7;
  const set = (name, value) => around.setAttribute(name, value);
  set("class", "focus");
  set("x", area.x - space);
  set("y", area.y - space);
  set("width", area.width + 2 * space);
  set("height", area.height + 2 * space);
  set("rx", area.width || area.height ? 2 : 7);
  plot.querySelector("svg").append(around);
}

function show(next, hold) {
  const same = shown && next && shown.plot === next.plot && shown.panel === next.panel && shown.at === next.at;
  if (same && held === hold) return;
  shown = next;
  held = Boolean(next && hold);
  tip.hidden = !next;
  tip.classList.toggle("held", held);
  if (!next) {
    document.querySelectorAll("svg .focus").forEach((old) => old.remove());
    return;
  }
  const data = dataOf(next.plot);
  const mark = data.panels[next.panel][next.at];
  // A region that was hidden is not announced when it appears, so readers of screens have one of their own.
  spoken.textContent = fill(mark, data.strings);
  if (mark[5] >= 0) addCommand(data.strings[mark[5]]);
  const area = areaOf(next.plot, next.panel, next.at);
  ring(next.plot, area);
  const { left, top, x, y, scale } = viewOf(next.plot);
  const middle = left + (area.x + area.width / 2 - x) * scale;
  const above = top + (area.y - y) * scale - tip.offsetHeight - 14;
  const below = top + (area.y + area.height - y) * scale + 14;
  const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${window.scrollX + Math.max(8, Math.min(middle - tip.offsetWidth / 2, most))}px`;
  tip.style.top = `${window.scrollY + (above >= 4 ? above : below)}px`;
}

// Left and right step through the values, up and down go to the next series, so that each value can be reached.
function step(plot, key) {
  const place = (panel) => (mark, at) => ({ plot, panel, at, name: mark[4] });
  const every = dataOf(plot).panels.flatMap((marks, panel) => marks.map(place(panel)));
  const all = every.filter((one) => !isHidden(plot, one.panel, one.at));
  const here = (one) => shown !== null && shown.plot === plot && one.panel === shown.panel && one.at === shown.at;
  const now = all.findIndex(here);
  if (now < 0) return all[0] || null;
  const way = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  if (key === "ArrowLeft" || key === "ArrowRight") return all[now + way] || all[now];
  const other = (one) => one.panel !== all[now].panel || one.name !== all[now].name;
  let next = now;
  while (all[next] && !other(all[next])) next += way;
  return all[next] || all[now];
}

document.querySelectorAll(".plot").forEach((plot) => {
  plot.addEventListener("pointermove", (event) => {
    if (!held && !dragged && event.pointerType !== "touch") show(nearest(plot, event), false);
  });
  plot.addEventListener("pointerleave", () => {
    if (!held) show(null);
  });
  plot.addEventListener("click", (event) => {
    const key = event.target.closest(".key");
    if (key) toggle(plot, Number(key.dataset.entry));
    else if (!hasZoomed) show(nearest(plot, event), true);
    hasZoomed = false;
  });
  plot.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      show(step(plot, event.key), false);
    } else if (event.key === "Enter" && shown) {
      show(shown, true);
    } else {
      onViewKey(plot, event.key);
    }
  });
  plot.addEventListener("blur", () => {
    if (!held) show(null);
  });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") show(null);
});
document.addEventListener("pointerdown", (event) => {
  if (held && !tip.contains(event.target)) show(null);
});
window.addEventListener("resize", () => show(null));

async function copy(button, code) {
  getSelection().selectAllChildren(code);
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
document.querySelectorAll(".command .copy").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", () => copy(button, button.parentElement.querySelector("code")));
});
