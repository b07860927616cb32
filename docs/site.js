// Links to files outside of the book lead to the repository, where the book is the directory `docs`.
const root = new URL(path_to_root || ".", window.location.href).pathname;
const page = new URL(window.location.pathname.slice(root.length), "https://repository.invalid/docs/");
for (const link of document.querySelectorAll("main a[href]")) {
  const target = new URL(link.getAttribute("href"), page);
  if (target.host === page.host && !target.pathname.startsWith("/docs/")) {
    const file = target.pathname.replace(/\.html$/, ".md");
    link.href = "https://github.com/quorate/quorate/blob/main" + file + target.hash;
  }
}
