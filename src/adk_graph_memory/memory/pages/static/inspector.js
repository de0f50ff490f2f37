// What the pages do in a browser: the picture of a graph, the as-of slider, and the dialog of a change.
"use strict";

const DAY = 86_400_000;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();


/** Mix a color with the paper, so that a name on it can be read. */
function tint(name, strength) {
  const [ink, paper] = [color(name), color("paper")].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return `rgb(${ink.map((part, i) => Math.round(part * strength + paper[i] * (1 - strength))).join(",")})`;
}

const LABEL_WIDTH = 130;

/** Measure the box that a name needs, in lines of at most LABEL_WIDTH. */
function measureBox(name, fontSize) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${fontSize}px sans-serif`;
  const lines = [""];
  for (const word of name.split(/\s+/)) {
    const line = `${lines.at(-1)} ${word}`.trim();
    if (pen.measureText(line).width <= LABEL_WIDTH || !lines.at(-1)) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  const width = Math.max(...lines.map((line) => pen.measureText(line).width));
  return { width: width + 20, height: lines.length * fontSize * 1.25 + 14 };
}

let openPath = (path) => location.assign(path);

/** Draw the graph in an element; a click on a node or an arrow opens its page. */
function drawGraph(place) {
  if (place.graph) return;
  const elements = JSON.parse(place.dataset.elements);
  for (const { data, classes } of elements) {
    if (data.name) Object.assign(data, measureBox(data.name, classes ? 17 : 13));
    else Object.assign(data, { now: data.label, isUnreal: classes === "unreal" });
  }
  const graph = cytoscape({
    container: place,
    elements,
    minZoom: 0.2,
    maxZoom: 3,
    style: [
      { selector: "node", style: {
        label: "data(name)", shape: "round-rectangle", width: "data(width)", height: "data(height)",
        "text-wrap": "wrap", "text-max-width": `${LABEL_WIDTH}px`, "text-valign": "center", "font-size": "13px", "z-index-compare": "manual", color: color("ink"),
        "background-color": (node) => tint(node.data("type"), node.hasClass("center") ? 0.6 : 0.3), "z-index": 2,
        "border-width": 1.5, "border-color": (node) => color(node.data("type")),
      } },
      { selector: "node.center", style: { "font-size": "17px", "font-weight": "bold" } },
      { selector: "edge", style: {
        "target-label": (edge) => (edge.target().hasClass("center") ? "" : edge.data("label")), "target-text-offset": 50,
        "source-label": (edge) => (edge.target().hasClass("center") ? edge.data("label") : ""), "source-text-offset": 50,
        "font-size": "10px", color: color("pale"), "z-index": 1, "z-index-compare": "manual",
        "text-background-color": color("paper"), "text-background-opacity": 0.85, "text-background-padding": "2px",
        width: 1.5, "line-color": color("pale"), "target-arrow-color": color("pale"), "target-arrow-shape": "triangle",
        "curve-style": "bezier", "control-point-step-size": 55,
      } },
      { selector: "edge.unreal", style: { "line-style": "dotted" } },
      { selector: "edge.over", style: { "line-style": "dashed", opacity: 0.4 } },
      { selector: ".not-then", style: { opacity: 0.12 } },
    ],
    layout: { name: "preset", fit: true, padding: 24 },
  });
  if (graph.zoom() > 1.2 || graph.zoom() < 0.6) {
    graph.zoom(graph.zoom() > 1 ? 1.2 : 0.6);
    graph.center(graph.nodes(".center"));
  }
  graph.on("tap", "node, edge", (event) => { if (event.target.data("path")) openPath(event.target.data("path")); });
  place.graph = graph;
}

/** Show what held on the slider's day, under a heading that says so; in the drawing, fade what did not. */
function showMoment(slider) {
  const day = Number(slider.value);
  const isToday = day === Number(slider.dataset.today);
  const held = (from, to) => isToday || (Number(from) <= day && day < Number(to));
  const date = new Date(day * DAY);
  const words = date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
  slider.nextElementSibling.value = isToday ? "today" : words;
  document.getElementById("known").textContent = isToday ? "What is known" : `So on ${words}`;
  for (const row of document.querySelectorAll("[data-from]")) {
    row.hidden = !isToday && !("isSo" in row.dataset && held(row.dataset.from, row.dataset.to)); // plans are not so
  }
  for (const row of document.querySelectorAll(".timeline .heading")) row.hidden = !isToday; // they say what is so now
  document.querySelector(".picture")?.graph?.edges().forEach((edge) => {
    const then = edge.data("periods").filter(([, from, to]) => held(from, to));
    edge.toggleClass("not-then", !then.length);
    edge.toggleClass("unreal", isToday ? edge.data("isUnreal") : then.length > 0 && !then.some(([, , , isSo]) => isSo));
    edge.data("label", isToday ? edge.data("now") : [...new Set(then.map(([word]) => word))].join(", "));
  });
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".picture").forEach(drawGraph));
document.addEventListener("input", (event) => { if (event.target.matches("#moment")) showMoment(event.target); });
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, textarea, select");
  const place = document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`);
  if (place && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); place.focus(); }
});
document.addEventListener("click", (event) => {
  const unfolder = event.target.closest("[data-unfolds]");
  if (unfolder) { document.querySelectorAll(".folded").forEach((item) => { item.hidden = false; }); unfolder.remove(); }
  const opener = event.target.closest("[data-opens]");
  if (opener) { const form = document.getElementById(opener.dataset.opens); form.hidden = !form.hidden; }
  const closer = event.target.closest("[data-closes]");
  if (closer) document.getElementById(closer.dataset.closes).close();
});
// After a change the page is not what it was; what was forgotten has none any more.
document.addEventListener("close", () => {
  const next = document.querySelector("[data-done]")?.dataset.done;
  if (next === "") location.reload();
  else if (next) location.assign(next);
}, true);
document.addEventListener("htmx:afterSwap", (event) => {
  const dialog = event.target.closest("dialog");
  if (dialog && !dialog.open) dialog.showModal();
});
// An error of the server says in the dialog what to do, as an answer would.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.target.id === "change-content") event.detail.shouldSwap = true;
});
