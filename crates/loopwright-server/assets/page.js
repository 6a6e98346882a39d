"use strict";
// Without this script, pages are read and forms are sent as usual. With it, a session is followed while it runs.
(() => {
  addEventListener("keydown", (event) => {
    const form = event.target.form;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form) form.requestSubmit();
  });

  const main = document.querySelector("main[data-live]");
  if (!main) return;
  const live = document.getElementById("live");
  const notice = document.getElementById("notice");
  const regions = () => document.querySelectorAll("[data-region]");
  const sent = new Map([...regions()].map((it) => [it.id, it.innerHTML]));
  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 200;
  let isBusy = false, isDirty = false, isWritten = false;

  // Puts the regions of a fresh page in the place of those that differ. What is open stays open, what has the focus keeps it.
  function replace(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const isFollowed = isAtEnd();
    for (const region of regions()) {
      const it = fresh.getElementById(region.id);
      if (!it || it.innerHTML === sent.get(region.id)) continue;
      sent.set(region.id, it.innerHTML);
      const open = [...region.querySelectorAll("details[open][id]")].map((it) => it.id);
      const focus = region.contains(document.activeElement) ? document.activeElement.id : "";
      region.replaceChildren(...it.childNodes);
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      if (focus) document.getElementById(focus)?.focus();
    }
    if (isWritten) live.replaceChildren();
    if (isFollowed) scrollTo(0, document.documentElement.scrollHeight);
    return fresh;
  }

  async function refresh() {
    isDirty = true;
    if (isBusy) return;
    isBusy = true;
    while (isDirty) {
      isDirty = false;
      try {
        const response = await fetch(location.href);
        if (response.redirected) return location.reload();
        if (response.ok) replace(await response.text());
      } catch {
        // The events come again when the server does, and with them the page.
      }
    }
    isBusy = false;
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-quiet]")) return;
    event.preventDefault();
    notice.textContent = "";
    try {
      const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      const html = await response.text();
      if (!response.ok) {
        const page = new DOMParser().parseFromString(html, "text/html");
        notice.textContent = page.querySelector("[role=alert]")?.textContent ?? "The message was not sent.";
        return;
      }
      form.elements.text.value = "";
      const key = replace(html).querySelector("#composer [name=key]");
      if (key) form.elements.key.value = key.value;
    } catch {
      notice.textContent = "The server cannot be reached. Send the message again.";
    }
  });

  const source = new EventSource(main.dataset.live);
  source.addEventListener("open", refresh);
  source.addEventListener("changed", (event) => {
    isWritten = JSON.parse(event.data).clear;
    refresh();
  });
  source.addEventListener("text", (event) => {
    isWritten = false;
    const isFollowed = isAtEnd();
    const { from, blocks } = JSON.parse(event.data);
    while (live.children.length > from) live.lastChild.remove();
    for (const html of blocks) {
      const block = document.createElement("div");
      // The server makes it of Markdown, and lets no markup of the model through.
      block.innerHTML = html;
      live.append(block);
    }
    if (isFollowed) scrollTo(0, document.documentElement.scrollHeight);
  });
})();
