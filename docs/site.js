// Links to files outside of the book lead to the repository.
const book = new URL(path_to_root || ".", window.location.href);
for (const link of document.querySelectorAll("main a[href]")) {
  const written = link.getAttribute("href");
  const here = new URL(written, window.location.href);
  if (here.origin === book.origin && !here.pathname.startsWith(book.pathname)) {
    const outside = here.pathname.slice(book.pathname.replace(/[^/]+\/$/, "").length);
    link.href = "https://github.com/quorate/quorate/blob/main/" + outside.replace(/\.html$/, ".md") + here.hash;
  }
}
