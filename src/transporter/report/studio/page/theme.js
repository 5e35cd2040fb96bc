// Before anything is painted, so that the page never flashes in the other theme.
const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
