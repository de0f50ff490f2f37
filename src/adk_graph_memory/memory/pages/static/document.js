// What a file of many pages does in a browser: unpack them, and show the one that the address names.
"use strict";

async function openDocument() {
  const main = document.getElementById("main");
  const bytes = Uint8Array.from(atob(document.getElementById("pages").textContent), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { pages, texts } = JSON.parse(await new Response(unpacked).text());

  function show(address) {
    const [, path, anchor] = address.match(/^(#[^#]*)(?:#(.*))?$/) ?? [];
    const missing = "<h1>Not in this file</h1><p>The file holds a part of the memory, and this is in another part.</p>";
    main.innerHTML = pages[path]?.replace(/<(\d+)>/g, (_, number) => texts[number]) ?? missing;
    main.querySelectorAll(".picture").forEach(drawGraph);
    const target = anchor && document.getElementById(anchor);
    if (target) { target.classList.add("target"); target.scrollIntoView(); } else { scrollTo(0, 0); main.focus({ preventScroll: true }); }
    for (const link of document.querySelectorAll("nav a")) {
      const isCurrent = link.hash !== "#/" && path?.startsWith(link.hash);
      if (isCurrent || path === link.hash) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
  }

  openPath = (address) => { location.hash = address; };
  addEventListener("hashchange", () => show(location.hash || main.dataset.start));
  show(location.hash || main.dataset.start);
}

const LETTERS = { ł: "l", đ: "d", ð: "d", ø: "o", ħ: "h", æ: "ae", œ: "oe", þ: "th", ß: "ss" };

/** Fold a text as a search on the pages of a server does: case and accents do not count. */
function fold(text) {
  return text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f\u0653-\u0655]/g, "").replace(/[łđðøħæœþß]/g, (letter) => LETTERS[letter]);
}

document.addEventListener("input", (event) => {
  const list = document.getElementById(event.target.dataset.filters);
  const words = fold(event.target.value).split(/\s+/);
  for (const item of list?.children ?? []) item.hidden = !words.every((word) => fold(item.textContent).includes(word));
});
// A frame in a notebook would open its own page instead.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); openPath(link.getAttribute("href")); }
});
openDocument();
