// Of every page: the theme, panels that can be closed, and the key for searching.
const OTHER = { light: "dark", dark: "light" };

document.getElementById("theme")?.addEventListener("click", () => {
  const root = document.documentElement;
  const present = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = OTHER[present];
  document.cookie = `theme=${OTHER[present]}; path=/; max-age=31536000; samesite=lax`;
  dispatchEvent(new Event("themechange"));
});

function close_panel() {
  const panel = document.getElementById("panel");
  if (!panel?.firstElementChild) return;
  panel.replaceChildren();
  document.getElementById("map")?.focus();
  dispatchEvent(new Event("panelclose"));
}

addEventListener("click", event => {
  if (event.target.closest("[data-close]")) close_panel();
});

addEventListener("keydown", event => {
  if (event.key === "Escape") close_panel();
  if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  document.querySelector("input[type=search]")?.focus();
});
