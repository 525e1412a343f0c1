// The page's texts in English and Chinese. What comes from the server (names, errors, reasons) is shown as it is.
import { effect, signal } from "@preact/signals";
import { en, type Texts } from "./en";
import { zh } from "./zh";

export type Language = "en" | "zh";
const STORED = "clicket.language";

function initial(): Language {
  const stored = localStorage.getItem(STORED);
  if (stored === "en" || stored === "zh") return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = signal<Language>(initial());
effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});

export function setLanguage(value: Language): void {
  localStorage.setItem(STORED, value);
  language.value = value;
}

/** A text with its `{names}` filled in. `{count|call|calls}` is the number and the word that fits it. */
export function t(name: keyof Texts, values: { [name: string]: string | number } = {}): string {
  const text: string = (language.value === "zh" ? zh : en)[name];
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, key: string, one?: string, many?: string) => {
    const value = String(values[key] ?? "");
    return one === undefined ? value : `${value} ${value === "1" ? one : many}`;
  });
}

/** The word for a value of the server, such as a state; the value itself if there is no word for it. */
export function word(group: string, value: string): string {
  const texts = (language.value === "zh" ? zh : en) as { [name: string]: string };
  return texts[`${group}.${value}`] ?? value;
}
