"use strict";
// Uses each figure of the page as a reader would, and reports what happened.
(() => {
  const tooltip = document.getElementById("~tip");
  const seen = (plot) => plot.offsetParent !== null;
  const key = (plot, name) => plot.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const point = (plot, type, x, y, pointerType) =>
    plot.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, pointerType, bubbles: true }));
  const within = () => {
    const box = tooltip.getBoundingClientRect();
    return box.left >= 0 && box.right <= document.documentElement.clientWidth;
  };

  function use(plot) {
    const data = JSON.parse(document.getElementById(`${plot.dataset.figure}~data`).textContent);
    const count = data.panels.reduce((sum, marks) => sum + marks.length, 0);
    plot.scrollIntoView();
    plot.focus();
    // Every value by the keyboard: each press but the last ones moves the ring or changes what the tooltip says.
    const said = () => {
      const ring = plot.querySelector(".focus");
      if (tooltip.hidden || !ring) return "";
      return `${tooltip.textContent} ${ring.getAttribute("x")} ${ring.getAttribute("y")}`;
    };
    let [before, reached] = ["", 0];
    for (let press = 0; press < count; press += 1) {
      key(plot, "ArrowRight");
      const now = said();
      if (now && now !== before) reached += 1;
      before = now;
    }
    key(plot, "ArrowRight");
    const last = said();
    if (last !== before) reached = -1;
    const keyboard = !tooltip.hidden && last.length > 3 && within() &&
      document.getElementById("~spoken").textContent.length > 3;
    key(plot, "Escape");
    const hidden = tooltip.hidden;
    // The first value by the pointer.
    const [x, y, width, height] = data.frames[plot.dataset.layout][0];
    const [left, top, across, down] = data.panels[0][0].slice(0, 4).map((part) => part / data.fineness);
    const box = plot.querySelector("svg").getBoundingClientRect();
    const scale = box.width / plot.querySelector("svg").viewBox.baseVal.width;
    const atX = box.left + (x + (left + across / 2) * width) * scale;
    const atY = box.top + (y + (top + down / 2) * height) * scale;
    point(plot, "pointermove", atX, atY, "mouse");
    const pointer = !tooltip.hidden && tooltip.textContent.includes(data.strings[data.panels[0][0][7]]);
    const inside = within();
    point(plot, "pointermove", box.left - 300, box.top - 300, "mouse");
    const far = tooltip.hidden;
    point(plot, "click", atX, atY, "touch");
    const touch = !tooltip.hidden;
    const copied = data.panels[0][0][5] < 0 || tooltip.querySelector("button") !== null;
    const held = tooltip.classList.contains("held") && copied;
    document.body.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
    const views = useViews(plot, atX, atY);
    const closed = hidden && tooltip.hidden && document.querySelector("svg .focus") === null;
    plot.blur();
    return {
      id: plot.dataset.figure, layout: plot.classList.contains("wide") ? "wide" : "narrow",
      count, reached, keyboard, pointer, touch, far, held, closed, inside, views,
    };
  }

  // Hides and shows the first series by its line of the legend, and zooms in by a drag and out by a key.
  function useViews(plot, atX, atY) {
    const svg = plot.querySelector("svg");
    const whole = svg.getAttribute("viewBox");
    const line = plot.querySelector(".key");
    const groups = () => [...plot.querySelectorAll("g[data-entry='0']:not(.key)")];
    const visible = () => groups().every((group) => getComputedStyle(group).visibility === "visible");
    let hides = true;
    if (line) {
      const click = () => line.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      const before = visible();
      click();
      const off = !visible();
      click();
      hides = before && off && visible();
    }
    const drag = (type, x, y) => plot.dispatchEvent(
      new PointerEvent(type, { clientX: x, clientY: y, pointerType: "mouse", button: 0, bubbles: true }));
    drag("pointerdown", atX - 30, atY - 20);
    drag("pointermove", atX + 30, atY + 20);
    drag("pointerup", atX + 30, atY + 20);
    // Browsers send a click after a drag, which must not hold a tooltip.
    point(plot, "click", atX + 30, atY + 20, "mouse");
    const isFree = tooltip.hidden;
    const width = svg.viewBox.baseVal.width;
    const isCloser = width < Number(whole.split(" ")[2]) / 2;
    // A value is found where it is drawn.
    key(plot, "ArrowRight");
    const ring = plot.querySelector(".focus");
    const found = Boolean(ring) && !tooltip.hidden;
    key(plot, "Escape");
    key(plot, "0");
    const isWhole = svg.viewBox.baseVal.width === Number(whole.split(" ")[2]);
    return hides && isFree && isCloser && found && isWhole;
  }

  function report() {
    const found = { errors, dark: matchMedia("(prefers-color-scheme: dark)").matches };
    found.background = getComputedStyle(document.body).backgroundColor;
    found.overflow = Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth);
    const plots = [...document.querySelectorAll(".plot")].filter(seen);
    const height = (text) => parseFloat(getComputedStyle(text).fontSize) *
      text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width;
    found.text = Math.min(...plots.flatMap((plot) => [...plot.querySelectorAll("text")]).map(height));
    found.figures = plots.map(use);
    return found;
  }

  try {
    parent.postMessage(JSON.stringify(report()), "*");
  } catch (error) {
    parent.postMessage(JSON.stringify({ errors: [...errors, String(error)] }), "*");
  }
})();
