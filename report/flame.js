// Zoom: a click on a frame makes it as wide as the picture. Search: frames whose name matches are marked, and their
// share of all instructions is told.
const svg = document.documentElement, frames = [...svg.querySelectorAll(".frame")];
const width = Number(svg.dataset.width), told = svg.querySelector("#told"), rest = told.textContent;
for (const frame of frames) {
  const [x, w] = [Number(frame.dataset.x), Number(frame.dataset.w)];
  frame.span = [x, x + w];
  frame.onmouseover = () => (told.textContent = frame.querySelector("title").textContent);
  frame.onmouseout = () => (told.textContent = rest);
  frame.onclick = () => zoom(frame);
  frame.onkeydown = (event) => event.key === "Enter" && zoom(frame);
}
function zoom(chosen) {
  const [from, to] = chosen.span;
  const depth = Number(chosen.dataset.depth);
  for (const frame of frames) {
    const [x, end] = frame.span;
    const inside = x >= from && end <= to, around = x <= from && end >= to && Number(frame.dataset.depth) < depth;
    frame.style.display = inside || around ? "" : "none";
    const scale = width / (to - from), left = around ? 0 : (x - from) * scale, w = around ? width : (end - x) * scale;
    frame.querySelector("rect").setAttribute("x", left);
    frame.querySelector("rect").setAttribute("width", w);
    const text = frame.querySelector("text"), room = Math.floor((w - 6) / 6.6), name = frame.dataset.name;
    text.setAttribute("x", left + 3);
    text.textContent = room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 1) + "…";
  }
}
function search() {
  const words = prompt("Search for functions (a regular expression):", "");
  if (words === null) return;
  const wanted = words && new RegExp(words), found = [];
  for (const frame of frames) {
    const hit = wanted && wanted.test(frame.dataset.name);
    frame.querySelector("rect").classList.toggle("hit", Boolean(hit));
    if (hit && !found.some(([x, end]) => x <= frame.span[0] && end >= frame.span[1])) found.push(frame.span);
  }
  const share = found.reduce((sum, [x, end]) => sum + end - x, 0) / width;
  svg.querySelector("#found").textContent = words && `${words}: ${(100 * share).toFixed(1)} %`;
}
svg.querySelector("#search").onclick = search;
svg.querySelector("#reset").onclick = () => zoom({ span: [0, width], dataset: { depth: -1 } });
addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "f") event.preventDefault(), search();
});
