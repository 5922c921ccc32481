"use strict";
// Draws the figures in the colours of the page, and again when those change or the page is printed.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { ink: of("--ink"), soft: of("--soft"), grid: of("--grid"), line: of("--line"), panel: of("--panel"),
      heat: [[0, of("--heat-low")], [1, of("--heat-high")]] };
  }

  function recoloured(figure) {
    return JSON.parse(JSON.stringify(figure, (key, value) => lighter[value] || value));
  }

  function themed(layout, colour, width) {
    const copy = structuredClone(layout);
    for (const name of Object.keys(copy)) {
      if (/^[xy]axis/.test(name)) {
        Object.assign(copy[name], { gridcolor: colour.grid, linecolor: colour.line, tickcolor: colour.line, color: colour.soft });
        if (width < 500 && name.startsWith("x") && !copy[name].tickvals) copy[name].nticks = 5;
      }
    }
    return Object.assign({
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: width < 500 ? 11 : 13, color: colour.ink },
      margin: { l: 10, r: 10, t: 34, b: 10 },
      hoverlabel: { bgcolor: colour.panel, bordercolor: colour.line, font: { color: colour.ink } },
      hovermode: "closest",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour.line, activecolor: colour.soft },
    }, copy);
  }

  // The same hues, light enough to stand on a dark page.
  const lighter = { "#0072B2": "#4AA8E8", "#D55E00": "#F58B45", "#009E73": "#2CC79B" };

  function draw() {
    const colour = colours();
    for (const [id, plain] of Object.entries(figures)) {
      const figure = dark.matches ? recoloured(plain) : plain;
      const element = document.getElementById(id);
      const data = structuredClone(figure.data);
      for (const trace of data) if (trace.colorscale === "heat") trace.colorscale = colour.heat;
      for (const trace of data) if (trace.colorbar) trace.colorbar.outlinecolor = colour.line;
      Plotly.react(element, data, themed(figure.layout, colour, element.clientWidth), {
        responsive: true,
        displaylogo: false,
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      });
    }
  }

  draw();
  dark.addEventListener("change", draw);
})();
