// Draws the diagrams of a page, in the colors that the reader's system asks for.
mermaid.initialize({
  startOnLoad: true,
  theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "neutral",
  fontFamily: "system-ui, sans-serif",
});
