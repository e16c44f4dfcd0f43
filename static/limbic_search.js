// Keys for pages with our search box, and sliders that rank again as they move. Without this
// script the same is done by Tab, Enter and the button of the form.
(() => {
  "use strict";
  const STORED = "limbic-search-keys";
  const PLACE = "limbic-search-place";
  const DELAY = 400; // ms: a key held down on a slider asks once
  const DIGITS = { beta_sal: 2, gamma: 3 };
  const box = document.getElementById("limbic-q");

  const isOn = () => {
    try {
      return localStorage.getItem(STORED) !== "off";
    } catch {
      return true; // storage is forbidden: the keys stay on
    }
  };

  // fields, sliders and open menus keep their keys; so does what scrolls, and a dialog
  const isTaken = (path) =>
    path.some(
      (element) =>
        element instanceof Element &&
        (element.isContentEditable ||
          element.matches(
            "textarea, select, dialog, [role=dialog], input:not([type=checkbox]):not([type=submit])",
          )),
    );

  const results = () => [...document.querySelectorAll(".limbic-results h3 a, .limbic-lost-table th a")];

  const whole = (result) => result.closest(".limbic-card, tr") ?? result;

  // from the one that has the focus, or to the first that begins within or below the view
  const move = (step) => {
    const all = results();
    const at = all.indexOf(document.activeElement);
    const wanted =
      at < 0 ? all.find((each) => whole(each).getBoundingClientRect().top >= 0) : all[at + step];
    if (!wanted) return false;
    wanted.focus({ preventScroll: true });
    whole(wanted).scrollIntoView({ block: "nearest" });
    return true;
  };

  const actions = {
    "/": () => {
      if (!box) return false;
      box.focus();
      box.select();
      return true;
    },
    "?": () => {
      const help = document.querySelector("[data-limbic-keys]");
      if (!help) return false;
      help.open = !help.open;
      help.querySelector("summary").focus();
      return true;
    },
    ArrowDown: () => move(1),
    // nothing above the first: the page scrolls as ever
    ArrowUp: () => results().includes(document.activeElement) && move(-1),
    Escape: () => {
      if (!box || !results().includes(document.activeElement)) return false;
      box.focus();
      return true;
    },
  };

  // Captured, since "/" would open the dialog of Datasette 1.0 as well; the rest of it is let be.
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
      if (event.shiftKey && event.key.length > 1) return;
      if (event.defaultPrevented || !Object.hasOwn(actions, event.key) || !isOn()) return;
      if (isTaken(event.composedPath())) return;
      const scrolls = document.activeElement?.matches("[tabindex='0']");
      if (scrolls && event.key.startsWith("Arrow")) return;
      if (actions[event.key]()) {
        event.preventDefault();
        event.stopPropagation();
      }
    },
    true,
  );

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

  const form = document.getElementById("limbic-vary");
  if (!form) return;

  const rounded = (field) =>
    field.name in DIGITS ? String(Number(Number(field.value).toFixed(DIGITS[field.name]))) : field.value;

  // What the form asks for, as an address that holds no more than what was chosen. A slider that
  // was not moved keeps the value that it came with.
  const moved = new Set();
  const address = () => {
    const asked = new URLSearchParams();
    for (const field of form.elements) {
      if (!field.name) continue;
      const initial = field.getAttribute("value") ?? field.dataset.initial;
      const value = moved.has(field) ? rounded(field) : initial;
      if (value !== field.dataset.default) asked.append(field.name, value);
    }
    return `${form.getAttribute("action")}?${asked}`;
  };

  const strategy = form.elements.namedItem("strategy");
  strategy.dataset.initial = strategy.value;

  let timer = 0;
  const rankAgain = (field) => {
    try {
      sessionStorage.setItem(PLACE, JSON.stringify({ at: Date.now(), y: scrollY, id: field.id }));
    } catch {
      // storage is forbidden: the page begins at its top
    }
    location.assign(address());
  };

  form.addEventListener("input", (event) => {
    moved.add(event.target);
    const shown = form.querySelector(`output[for="${event.target.id}"]`);
    if (shown) shown.value = rounded(event.target);
  });
  form.addEventListener("change", (event) => {
    moved.add(event.target);
    clearTimeout(timer);
    timer = setTimeout(rankAgain, DELAY, event.target);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    rankAgain(event.submitter ?? form);
  });

  // Whoever opens something else within the delay goes there, and not back to this page.
  document.addEventListener("click", (event) => {
    const inNew = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    if (!inNew && event.target.closest("a[href]")) clearTimeout(timer);
  });
  document.addEventListener("submit", () => clearTimeout(timer), true);

  // Gone back to: the sliders say what the address does.
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    clearTimeout(timer);
    moved.clear();
    form.reset();
    for (const shown of form.querySelectorAll("output")) shown.value = shown.defaultValue;
  });

  try {
    const place = JSON.parse(sessionStorage.getItem(PLACE) ?? "null");
    sessionStorage.removeItem(PLACE);
    if (place && Date.now() - place.at < 30_000) {
      scrollTo({ top: place.y, behavior: "instant" });
      document.getElementById(place.id)?.focus({ preventScroll: true });
    }
  } catch {
    // storage is forbidden, or holds what is not ours
  }
})();
