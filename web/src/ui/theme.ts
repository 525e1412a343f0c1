// Light, dark, or what the system has. The choice is remembered in this browser.
import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const STORED = "clicket.theme";
const THEMES: Theme[] = ["auto", "light", "dark"];

const stored = localStorage.getItem(STORED) as Theme | null;
export const theme = signal<Theme>(stored && THEMES.includes(stored) ? stored : "auto");

effect(() => {
  const dark = theme.value === "dark" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  const value = theme.peek();
  theme.value = "light";
  theme.value = value;
});

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  localStorage.setItem(STORED, theme.value);
}
