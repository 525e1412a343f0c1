// What a screen shows when there is nothing to show, or when loading failed.
import type { ComponentChildren } from "preact";

export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty-state">{children}</div>;
}

export function Failure({ text }: { text: string }) {
  return text ? <p class="failure" role="alert">{text}</p> : null;
}
