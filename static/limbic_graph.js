// Pictures of the graph: move, zoom, and show what belongs to a node. All can be read without it.
"use strict";
(() => {
  const STEP = 1.4, CLOSEST = 8, TEXT_SHOWN = 1.9;
  const EDGE = ".limbic-edge", NODE = ".limbic-node", LONGEST = 24;

  // names that found no room in the picture are written where they are asked for
  const write = (group, name, x, y, side) => {
    const letters = [...name.replace(/[\u2068\u2069]/g, "")];
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("class", "limbic-later" + (side ? " limbic-" + side : ""));
    text.setAttribute("x", x.toFixed(1));
    text.setAttribute("y", y.toFixed(1));
    const shown = letters.length > LONGEST ? letters.slice(0, LONGEST - 1).join("") + "…" : letters.join("");
    text.textContent = "\u2068" + shown + "\u2069";
    group.append(text);
  };
  const name = (node, all) => {
    if (node.querySelector("text")) return;
    const said = node.querySelector("title").textContent;
    const found = /^\u2068[^\u2069]*\u2069/.exec(said);
    const { e: x, f: y } = node.transform.baseVal.getItem(0).matrix;
    const r = node.querySelector(".limbic-dot").r.baseVal.value;
    const side = x < all.x + 90 ? "start" : x > all.x + all.width - 90 ? "end" : "";
    const below = y + r + 16 < all.y + all.height;
    write(node, found ? found[0] : said.split(" · ")[0], 0, below ? r + 12.6 : -r - 5.4, side);
  };
  const label = (edge) => {
    if (!edge.dataset.label || edge.querySelector("text")) return;
    const box = edge.querySelector("path").getBBox();
    write(edge, edge.dataset.label, box.x + box.width / 2, box.y + box.height / 2 - 3, "");
  };

  const start = (figure) => {
    const svg = figure.querySelector("svg.limbic-graph-picture");
    const frame = figure.querySelector(".limbic-graph-window");
    if (!svg || !frame) return;
    const whole = svg.viewBox.baseVal;
    const all = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
    let seen = { ...all };
    const buttons = {};

    const zoom = () => all.width / seen.width;
    const show = (next) => {
      const width = Math.min(all.width, Math.max(all.width / CLOSEST, next.width));
      const height = width * all.height / all.width;
      seen = {
        width, height,
        x: Math.min(all.x + all.width - width, Math.max(all.x, next.x)),
        y: Math.min(all.y + all.height - height, Math.max(all.y, next.y)),
      };
      svg.setAttribute("viewBox", [seen.x, seen.y, seen.width, seen.height].map((n) => n.toFixed(1)).join(" "));
      svg.classList.toggle("limbic-zoomed", zoom() >= TEXT_SHOWN);
      if (zoom() >= TEXT_SHOWN) for (const node of svg.querySelectorAll(NODE)) name(node, all);
      buttons.out.disabled = buttons.whole.disabled = zoom() <= 1.001;
      buttons.in.disabled = zoom() >= CLOSEST - 0.001;
      // moved by a finger only where there is something to move: else the page scrolls
      svg.classList.toggle("limbic-moves", zoom() > 1.001);
    };
    const zoomAt = (factor, at) => {
      const point = at || { x: seen.x + seen.width / 2, y: seen.y + seen.height / 2 };
      const width = Math.min(all.width, Math.max(all.width / CLOSEST, seen.width / factor));
      const share = width / seen.width;
      show({ width, x: point.x - (point.x - seen.x) * share, y: point.y - (point.y - seen.y) * share });
    };
    const pointAt = (event) => {
      const matrix = svg.getScreenCTM();
      return matrix ? new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()) : null;
    };

    const tools = document.createElement("div");
    tools.className = "limbic-graph-tools";
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", figure.dataset.tools || "");
    const button = (name, sign, text, press) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = sign;
      made.title = text;
      made.setAttribute("aria-label", text);
      made.setAttribute("aria-controls", svg.id);
      made.addEventListener("click", press);
      tools.append(made);
      buttons[name] = made;
    };
    button("in", "+", figure.dataset.zoomIn, () => zoomAt(STEP));
    button("out", "−", figure.dataset.zoomOut, () => zoomAt(1 / STEP));
    button("whole", "□", figure.dataset.whole, () => show(all));
    figure.append(tools);
    show(all);

    figure.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "+" || event.key === "=") zoomAt(STEP);
      else if (event.key === "-") zoomAt(1 / STEP);
      else if (event.key === "0") show(all);
      else return;
      event.preventDefault();
    });
    svg.addEventListener("wheel", (event) => {
      // the wheel alone scrolls the page; with ctrl it zooms, as a pinch of a touch pad does
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.004)), pointAt(event));
    }, { passive: false });

    // pointers: one drags, two pinch
    const pointers = new Map();
    let last = null, moved = 0;
    const spread = () => {
      const [a, b] = [...pointers.values()];
      return { apart: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) || 1,
        clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 };
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      pointers.set(event.pointerId, event);
      moved = pointers.size > 1 ? moved : 0;
      last = pointers.size === 2 ? spread() : event;
    });
    const move = (event) => {
      if (!pointers.has(event.pointerId)) return;
      // the button was let go where nobody told us
      if (event.pointerType === "mouse" && !event.buttons) return end(event);
      pointers.set(event.pointerId, event);
      if (pointers.size > 2) return;
      const next = pointers.size === 2 ? spread() : event;
      const matrix = svg.getScreenCTM();
      if (!matrix || !last) return;
      const dx = next.clientX - last.clientX, dy = next.clientY - last.clientY;
      moved += Math.hypot(dx, dy);
      if (pointers.size === 2 && last.apart) {
        zoomAt(next.apart / last.apart, pointAt(next));
        moved = 99;
      }
      if (moved > 4 && zoom() > 1.001) {
        svg.classList.add("limbic-dragged");
        show({ width: seen.width, x: seen.x - dx / matrix.a, y: seen.y - dy / matrix.d });
      }
      last = next;
    };
    const end = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      last = pointers.size === 1 ? [...pointers.values()][0] : null;
      if (!pointers.size) svg.classList.remove("limbic-dragged");
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
    // the end of a drag is no click on the node below, and no drag takes a link along; a key that
    // is pressed (detail 0) always counts, also after a drag that ended elsewhere
    svg.addEventListener("click", (event) => {
      if (event.detail && moved > 4 && zoom() > 1.001) event.preventDefault();
      moved = 0;
    }, true);
    svg.addEventListener("dragstart", (event) => event.preventDefault());

    // what belongs to a node
    const edges = [...svg.querySelectorAll(EDGE)];
    const nodes = new Map([...svg.querySelectorAll(NODE)].map((node) => [node.dataset.id, node]));
    const light = (id) => {
      for (const one of svg.querySelectorAll(".limbic-near")) one.classList.remove("limbic-near");
      svg.classList.toggle("limbic-lit", id !== null);
      if (id === null) return;
      nodes.get(id).classList.add("limbic-near");
      name(nodes.get(id), all);
      for (const edge of edges) {
        const ends = edge.dataset.ends.split(" ");
        if (!ends.includes(id)) continue;
        edge.classList.add("limbic-near");
        label(edge);
        const other = nodes.get(ends[0] === id ? ends[1] : ends[0]);
        if (!other) continue;
        other.classList.add("limbic-near");
        name(other, all);
      }
    };
    const lightOf = (event) => {
      const node = event.target.closest && event.target.closest(NODE);
      light(node ? node.dataset.id : null);
    };
    svg.addEventListener("pointerover", lightOf);
    svg.addEventListener("pointerleave", () => light(null));
    // not on the picture itself: Chromium lets Tab stop at an SVG that listens for the focus
    frame.addEventListener("focusin", (event) => {
      lightOf(event);
      // a node that the zoom has left outside comes into sight
      const node = event.target.closest(NODE);
      if (!node || zoom() <= 1.001) return;
      const { e: x, f: y } = node.transform.baseVal.getItem(0).matrix;
      if (x < seen.x || x > seen.x + seen.width || y < seen.y || y > seen.y + seen.height) {
        show({ width: seen.width, x: x - seen.width / 2, y: y - seen.height / 2 });
      }
    });
    frame.addEventListener("focusout", () => light(null));

    // on a phone the picture is wider than its window: begin in the middle, where the focus is
    const middle = () => {
      frame.scrollLeft = (frame.scrollWidth - frame.clientWidth) / 2;
      frame.scrollTop = (frame.scrollHeight - frame.clientHeight) / 2;
    };
    middle();
  };

  for (const figure of document.querySelectorAll("[data-limbic-graph]")) start(figure);
})();
