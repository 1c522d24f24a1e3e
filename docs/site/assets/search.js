// Searches the sections of all pages for words, in the browser. The index comes with the site.
(() => {
  const root = new URL(".", document.querySelector("header .name").href).href;
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const most = 12;
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.replaceChildren();
    found.hidden = words.length === 0;
    if (found.hidden) return;
    const hits = [];
    for (const { url, page, heading, text } of window.searchIndex) {
      const title = (page + " " + heading).toLowerCase();
      const all = title + " " + text.toLowerCase();
      if (!words.every((w) => all.includes(w))) continue;
      hits.push({ url, page, heading, text, score: words.filter((w) => title.includes(w)).length });
    }
    hits.sort((a, b) => b.score - a.score);
    for (const h of hits.slice(0, most)) {
      const a = document.createElement("a");
      a.href = root + h.url;
      a.textContent = h.heading ? h.page + " › " + h.heading : h.page;
      const small = document.createElement("small");
      const at = Math.max(0, h.text.toLowerCase().indexOf(words[0]) - 30);
      small.textContent = h.text.slice(at, at + 120);
      a.append(small);
      const li = document.createElement("li");
      li.append(a);
      found.append(li);
    }
    if (hits.length === 0) found.append("Nothing found.");
  };
  input.addEventListener("input", search);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { input.value = ""; search(); }
    if (e.key === "/" && document.activeElement !== input) { e.preventDefault(); input.focus(); }
  });
  const menu = document.getElementById("menu");
  menu.addEventListener("click", () => {
    const open = document.getElementById("pages").classList.toggle("open");
    menu.setAttribute("aria-expanded", open);
  });
})();
