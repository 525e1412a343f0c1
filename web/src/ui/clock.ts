// The time of the page, once a second. Nothing ticks in a hidden tab.
import { signal } from "@preact/signals";

export const now = signal(Date.now() / 1000);
setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000;
}, 1000);
document.addEventListener("visibilitychange", () => { now.value = Date.now() / 1000; });
