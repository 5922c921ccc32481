"use strict";
(async () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const NARROW_PX = 620;
  const PRINT_PX = 670;
  const PRINT_HEIGHT_PX = 780;
  const STEPS_MAX = 1500;
  const ROOM = 0.08;
  const CONFIG = {
    displaylogo: false,
    responsive: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    doubleClick: "reset",
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    toImageButtonOptions: { format: "png", scale: 2 },
  };

  const unpacked = async (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  // The page's policy forbids the attribute style, though not what a script sets on an element's style.
  const { setAttribute } = Element.prototype;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };

  const figures = new Map();
  for (const element of document.querySelectorAll("script[data-figure]")) {
    figures.set(element.dataset.figure, JSON.parse(await unpacked(element)));
  }
  const darkOfLight = JSON.parse(await unpacked(document.getElementById("colours")));
  const library = document.createElement("script");
  library.textContent = await unpacked(document.getElementById("plotly"));
  // Plotly brings the style sheet of maps along. No chart here is one, and the policy would refuse it with a complaint.
  const { createElement } = document;
  document.createElement = (...words) => {
    const element = createElement.apply(document, words);
    if (words[0] === "style") Object.defineProperty(element, "textContent", { set() {} });
    return element;
  };
  document.head.append(library);
  delete document.createElement;
  if (!window.Plotly) return;

  let printing = false;

  const coloured = (value) => {
    if (typeof value === "string") return darkOfLight[value] ?? value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, coloured(inner)]));
    }
    return value;
  };

  const leveled = (figure) => {
    const level = figure.level;
    const data = [...figure.data, ...(figure.singles ?? [])];
    if (!level) return data;
    level.traces.forEach((place, at) => {
      data[place] = { ...data[place], x0: level.x0, dx: level.dx, y: level.values[at] };
    });
    return data;
  };

  // Plotly scales an axis to all that there is; whoever zooms in wants to see what is shown as large as it can be.
  const rescaled = (figure, data, layout) => {
    const [low, high] = figure.range;
    for (const [name, axis] of Object.entries(layout)) {
      if (!name.startsWith("yaxis") || axis.range || axis.tickmode === "array") continue;
      const traces = data.filter((trace) => (trace.yaxis ?? "y") === name.replace("yaxis", "y"));
      if (traces.some((trace) => trace.type !== "scatter")) continue;
      const isLog = axis.type === "log";
      let [least, most] = [Infinity, -Infinity];
      for (const trace of traces) {
        trace.y.forEach((value, at) => {
          const x = trace.x ? milliseconds(figure, trace.x[at]) : trace.x0 + at * trace.dx;
          if (value === null || x < low || x > high || (isLog && value <= 0)) return;
          [least, most] = [Math.min(least, value), Math.max(most, value)];
        });
      }
      if (most < least) continue;
      const range = isLog
        ? [Math.log10(least) - ROOM, Math.log10(most) + ROOM]
        : [axis.rangemode === "tozero" ? Math.min(0, least) : least, most + ROOM * Math.abs(most) || 1];
      layout[name] = { ...axis, range, autorange: false };
    }
  };

  const prepared = (figure, width) => {
    let data = leveled(figure);
    let layout = { ...figure.layout, width };
    if (figure.range) {
      layout.xaxis = { ...layout.xaxis, range: figure.range, autorange: false };
      rescaled(figure, data, layout);
    }
    if (printing) layout.height = Math.min(layout.height, PRINT_HEIGHT_PX);
    if (width < NARROW_PX) {
      layout.margin = { ...layout.margin, l: 44, r: 8 };
      layout.font = { ...layout.font, size: 11 };
      layout.xaxis = { ...layout.xaxis, nticks: 5 };
    }
    if (dark.matches && !printing) {
      data = coloured(data);
      layout = coloured(layout);
    }
    // Without an own copy Plotly would write into what is drawn again later.
    return structuredClone({ data, layout });
  };

  const draw = (id) => {
    const figure = figures.get(id);
    const place = document.getElementById(id);
    const width = printing ? PRINT_PX : place.clientWidth;
    if (!width || (figure.width === width && figure.isDark === dark.matches && !printing)) return;
    figure.width = printing ? 0 : width;
    figure.isDark = dark.matches;
    const { data, layout } = prepared(figure, width);
    const displayModeBar = width < NARROW_PX ? false : "hover";
    Plotly.react(place, data, layout, { ...CONFIG, displayModeBar, staticPlot: printing });
    if (!figure.isWired) wire(id, figure, place);
  };

  const overlap = (figure, low, high) =>
    figure.links.find((link) => link.low <= high && low <= link.high);

  const milliseconds = (figure, value) =>
    figure.layout.xaxis.type === "date" && typeof value === "string" ? Date.parse(`${value.replace(" ", "T")}Z`) : Number(value);

  const zoom = (id, range) => {
    const figure = figures.get(id);
    figure.range = range;
    // The finest steps that are there and of which a screen can show as many.
    figure.level =
      range &&
      figure.levels
        .filter((level) => level.low <= range[0] && range[1] <= level.high)
        .filter((level) => (range[1] - range[0]) / level.dx <= STEPS_MAX)
        .sort((one, other) => one.dx - other.dx)[0];
    const place = document.getElementById(id);
    if (figure.width) {
      figure.width = 0;
      // What the reader dragged is kept apart from what the page asks for.
      figure.layout.uirevision = `${id} ${range}`;
      draw(id);
    }
    told(figure, place);
    ask(id, figure, range);
  };

  // A page that is served asks for steps as fine as the stretch allows, and for single I/Os where they are few.
  const ask = async (id, figure, range) => {
    figure.singles = [];
    if (!("served" in document.body.dataset) || !figure.isCourse || !range) return;
    const asked = (figure.asked = `course?group=${figure.group}&low=${range[0]}&high=${range[1]}`);
    const answer = await fetch(asked);
    if (!answer.ok || figure.asked !== asked || figure.range !== range) return;
    const { level, singles } = await answer.json();
    figure.level = level ?? figure.level;
    figure.singles = singles;
    figure.width = 0;
    draw(id);
    told(figure, document.getElementById(id));
  };

  const zoomAll = (id, range) => {
    const { group } = figures.get(id);
    for (const [other, figure] of figures) {
      if (other === id || (group && figure.group === group)) zoom(other, range);
    }
  };

  const long = (seconds) =>
    seconds < 1 ? `${Number((seconds * 1000).toPrecision(3))} ms` : `${Number(seconds.toPrecision(3))} s`;

  const told = (figure, place) => {
    const status = place.nextElementSibling?.querySelector("output");
    if (!status) return;
    if (!figure.range) {
      status.textContent = "Drag to zoom in, double-click to see all again.";
      return;
    }
    const isDate = figure.layout.xaxis.type === "date";
    const [low, high] = figure.range;
    const seconds = (high - low) / (isDate ? 1000 : 1);
    const since = (low - figure.layout.xaxis.range[0]) / (isDate ? 1000 : 1);
    const from = isDate ? `${new Date(low).toISOString().slice(0, 23).replace("T", " ")} UTC, ` : "";
    const step = figure.level ? (figure.level.dx * (isDate ? 1 : 1000)) : 0;
    status.textContent =
      `Shown: ${long(seconds)} from ${from}${since.toFixed(3)} s after the start on` +
      `${step ? `, in steps of ${long(step / 1000)}` : ""}. Double-click to see all again.`;
  };

  const reveal = (target) => {
    for (let around = target; around; around = around.parentElement?.closest("details")) {
      if (around.tagName === "DETAILS") around.open = true;
    }
  };

  const follow = (link) => {
    const target = document.getElementById(link.anchor);
    if (!target) return;
    reveal(target);
    target.scrollIntoView({ block: "center" });
    target.focus({ preventScroll: true });
    target.classList.add("pointed");
    setTimeout(() => target.classList.remove("pointed"), 3000);
  };

  const wire = (id, figure, place) => {
    figure.isWired = true;
    place.removeAttribute("role");
    place.setAttribute("role", "group");
    place.on("plotly_relayout", (change) => {
      const low = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
      const high = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
      if (low !== undefined && high !== undefined && (figure.group)) {
        zoomAll(id, [milliseconds(figure, low), milliseconds(figure, high)]);
      } else if ((change["xaxis.autorange"] || change["xaxis.showspikes"] === false) && figure.range) {
        zoomAll(id, null);
      }
    });
    place.on("plotly_doubleclick", () => {
      if (figure.range) zoomAll(id, null);
    });
    place.on("plotly_click", (event) => {
      const at = milliseconds(figure, event.points[0].x);
      const link = overlap(figure, at, at);
      if (link) follow(link);
    });
  };

  const buttons = (id, figure) => {
    if (!figure.group) return;
    const bar = document.createElement("div");
    bar.className = "zoom";
    for (const link of figure.links.slice(0, 12)) {
      if (!link.label) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `Zoom to ${link.label}`;
      button.addEventListener("click", () => {
        const around = (link.high - link.low) / 4;
        const [first, last] = figure.layout.xaxis.range;
        zoomAll(id, [Math.max(link.low - around, first), Math.min(link.high + around, last)]);
      });
      bar.append(button);
    }
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "Whole time";
    all.addEventListener("click", () => zoomAll(id, null));
    bar.append(all, document.createElement("output"));
    const place = document.getElementById(id);
    place.after(bar);
    told(figure, place);
  };

  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) draw(entry.target.id);
    },
    { rootMargin: "600px" },
  );
  for (const [id, figure] of figures) {
    const place = document.getElementById(id);
    place.hidden = false;
    place.style.minHeight = `${figure.layout.height}px`;
    place.closest("figure").querySelector("details").open = false;
    buttons(id, figure);
    near.observe(place);
  }

  const again = () => {
    for (const [id, figure] of figures) if (figure.isWired) draw(id);
  };
  dark.addEventListener("change", again);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(again, 150);
  });
  const rest = Array.from(document.querySelectorAll("details.rest"));
  for (const details of rest) details.open = false;
  // Paper cannot be clicked on: there everything stands open.
  const folded = [...rest, ...document.querySelectorAll("details.paper")];
  let openBefore = [];
  const onPaper = (isPrinting) => {
    if (printing === isPrinting) return;
    printing = isPrinting;
    if (isPrinting) openBefore = folded.filter((details) => details.open);
    for (const details of folded) details.open = isPrinting || openBefore.includes(details);
    for (const [id] of figures) draw(id);
  };
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
  document.documentElement.dataset.ready = "charts";
})();
