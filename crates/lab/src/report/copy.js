const button = document.getElementById("copy");
const command = document.getElementById("command");
button.hidden = false;
button.addEventListener("click", async () => {
  const selection = getSelection();
  selection.selectAllChildren(command);
  try {
    await navigator.clipboard.writeText(command.textContent);
  } catch {
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
