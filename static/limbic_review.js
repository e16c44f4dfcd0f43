// Keys for the review queue: each presses or follows what bears it in data-limbic-key, so that
// nothing can be done by a key that is not on the page. Without this script all of it still works.
(() => {
  "use strict";
  const STORED = "limbic-review-keys";
  // s and j are the same; buttons and links bear one letter
  const ALIASES = { s: "j" };
  let busy = false;

  const isOn = () => {
    try {
      return localStorage.getItem(STORED) !== "off";
    } catch {
      return true; // storage is forbidden: the keys stay on
    }
  };

  const isTyping = (element) =>
    element.isContentEditable ||
    element.matches("textarea, select, input:not([type=radio]):not([type=checkbox])");

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing) return;
    if (event.defaultPrevented || busy || !isOn() || isTyping(event.target)) return;
    const key = ALIASES[event.key] ?? event.key;
    if (!/^[adjku?]$/.test(key)) return;
    const wanted = document.querySelector(`[data-limbic-key="${key}"]`);
    if (!wanted) return;
    event.preventDefault();
    if (wanted instanceof HTMLDetailsElement) {
      wanted.open = !wanted.open;
      if (wanted.open) wanted.querySelector("summary").focus();
    } else {
      wanted.click();
    }
  });

  // one decision is sent once, however often it is pressed
  document.addEventListener("submit", (event) => {
    if (busy) event.preventDefault();
    busy = true;
  });
  addEventListener("pageshow", () => {
    busy = false;
  });

  const on = document.querySelector("[data-limbic-keys-on]");
  if (on) {
    on.closest("[hidden]").hidden = false;
    on.checked = isOn();
    on.addEventListener("change", () => {
      try {
        localStorage.setItem(STORED, on.checked ? "on" : "off");
      } catch {
        on.checked = true; // it could not be kept
      }
    });
  }
})();
