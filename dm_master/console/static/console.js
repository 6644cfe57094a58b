// Pages work without this file. It keeps them up to date, and keeps what was typed into a form while it is checked.
"use strict";

function followCluster() {
  const main = document.querySelector("main[data-live]");
  const part = document.getElementById("live");
  if (!main || !part) return;
  let source = null;

  const say = (text, health) => {
    const place = document.getElementById("live-state");
    if (place.textContent === text) return;
    place.textContent = text;
    place.dataset.health = health;
  };

  const show = (html) => {
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
    const active = document.activeElement;
    const typing = part.contains(active) && active.matches("input, textarea, select");
    if (typing) return;
    const focused = part.contains(active) ? [active.id, active.getAttribute("href"), active.tagName] : null;
    const scrolled = [...part.querySelectorAll(".scroll, pre")].map((one) => one.scrollLeft);
    part.innerHTML = html;
    for (const one of part.querySelectorAll("details[id]")) one.open = open.has(one.id);
    [...part.querySelectorAll(".scroll, pre")].forEach((one, place) => {
      one.scrollLeft = scrolled[place] || 0;
    });
    if (focused) {
      const same = [...part.querySelectorAll(focused[2])].find(
        (one) => (focused[0] && one.id === focused[0]) || (focused[1] && one.getAttribute("href") === focused[1]),
      );
      if (same) same.focus({ preventScroll: true });
    }
  };

  const start = () => {
    if (source || document.hidden) return;
    source = new EventSource(main.dataset.live);
    source.onmessage = (event) => show(JSON.parse(event.data));
    source.addEventListener("at", (event) => {
      document.getElementById("at").textContent = JSON.parse(event.data);
      say("live", "good");
    });
    source.onerror = () => say("not connected: trying again", "bad");
  };
  const stop = () => {
    if (source) source.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", start);
  start();
}

// Sends a form without leaving the page, so that no field is lost, and shows what the answer says about each field.
function checkInPlace(form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter;
    const body = new URLSearchParams(new FormData(form, button));
    const buttons = [...form.querySelectorAll("button")];
    for (const one of buttons) one.disabled = true;
    if (button) button.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(form.action, { method: "POST", body });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const result = page.getElementById("result");
      if (answer.redirected || !result) {
        document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes);
        document.title = page.title;
        document.getElementById("content").focus();
        return;
      }
      for (const old of form.querySelectorAll("#result, .findings")) {
        const fresh = page.getElementById(old.id);
        if (fresh) old.replaceChildren(...fresh.childNodes);
      }
      const first = form.querySelector("#result .notice, .findings .notice, #result");
      if (first) first.scrollIntoView({ block: "center" });
    } catch (error) {
      const result = form.querySelector("#result");
      result.textContent = "The master does not answer: " + error.message;
    } finally {
      for (const one of buttons) one.disabled = false;
      if (button) button.removeAttribute("aria-busy");
    }
  });
}

function setUp() {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("dm-theme", root.dataset.theme);
  });
  for (const one of document.querySelectorAll("[data-back]")) {
    one.addEventListener("click", (event) => {
      if (history.length > 1) {
        event.preventDefault();
        history.back();
      }
    });
  }
  for (const form of document.querySelectorAll("form[data-inline]")) checkInPlace(form);
  for (const form of document.querySelectorAll("form[data-once]:not([data-inline])")) {
    form.addEventListener("submit", () => {
      for (const one of form.querySelectorAll("button")) one.disabled = true;
    });
  }
  followCluster();
}

setUp();
