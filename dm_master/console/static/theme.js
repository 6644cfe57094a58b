// Before the first paint: the theme that the reader chose, if any.
"use strict";
(() => {
  const chosen = localStorage.getItem("dm-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
