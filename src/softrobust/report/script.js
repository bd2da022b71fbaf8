"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (where, what) => Array.from(where.querySelectorAll(what));

  // The frontier: a slider walks along the policies.
  for (const box of all(document, ".choose")) {
    const slider = box.querySelector("input"), section = box.closest("section");
    const rows = all(section, "tr[data-i]"), points = all(section, ".point");
    const ends = rows.map(e => [Number(e.dataset.low), Number(e.dataset.high)]);
    const away = ([low, high], x) => Math.max(low - x, x - high, 0);
    const show = () => {
      const x = Number(slider.value);
      const at = ends.reduce((best, end, i) => away(end, x) < away(ends[best], x) ? i : best, 0);
      for (const e of [...rows, ...points]) e.classList.toggle("on", e.dataset.i === String(at));
      box.querySelector("output").textContent = rows[at].dataset.told;
    };
    slider.addEventListener("input", show);
    for (const e of [...rows, ...points]) e.addEventListener("click", () => {
      const [low, high] = ends[Number(e.dataset.i)];
      slider.value = Math.min(Math.max(Number(slider.value), low), high);
      show();
    });
    show();
  }

  // The policy: sort by a column, find a state, keep only what differs.
  for (const table of all(document, "table.sortable")) {
    const heads = all(table, "thead th"), groups = all(table, "tbody");
    const value = (group, i) => {
      const cell = group.rows[0].cells[i], raw = cell.dataset.v;
      return raw === undefined ? cell.textContent.trim() : Number(raw);
    };
    heads.forEach((head, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.dataset.first || "ascending";
        const back = first === "ascending" ? "descending" : "ascending";
        const next = head.getAttribute("aria-sort") === first ? back : first;
        const turn = next === "ascending" ? 1 : -1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", next);
        groups.sort((a, b) => {
          const [x, y] = [value(a, i), value(b, i)];
          return turn * (typeof x === "number" ? x - y : x.localeCompare(y, "en", {numeric: true}));
        });
        table.append(...groups);
      });
    });
    const tools = table.closest("section").querySelector(".tools");
    if (!tools) continue;
    const find = tools.querySelector("[type=search]"), only = tools.querySelector("[type=checkbox]");
    const note = tools.querySelector("output");
    const sift = () => {
      const wanted = find.value.trim().toLowerCase();
      let left = 0;
      for (const group of groups) {
        group.hidden = !(group.rows[0].cells[0].textContent.toLowerCase().includes(wanted)
          && (!only || !only.checked || group.hasAttribute("data-differs")));
        left += group.hidden ? 0 : 1;
      }
      note.textContent = left === groups.length ? "" : `${left} of ${groups.length} states`;
    };
    find.addEventListener("input", sift);
    if (only) only.addEventListener("change", sift);
  }

  // A link opens the folds that its target lies in; print opens all.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const first = target.firstElementChild;
    for (let e = first && first.tagName === "DETAILS" ? first : target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all(document, "details:not([open])");
    for (const e of opened) e.open = true;
  });
  addEventListener("afterprint", () => { for (const e of opened) e.open = false; });
  open();
})();
