// Short messages at the edge of the page, also for screen readers.
import { signal } from "@preact/signals";
import { t } from "../i18n";
import { Icon } from "./icon";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
}

const toasts = signal<Toast[]>([]);
let next = 1;

export function notify(text: string, tone: "good" | "bad" = "good"): void {
  const id = next++;
  toasts.value = [...toasts.value.slice(-3), { id, text, tone }];
  setTimeout(() => dismiss(id), tone === "bad" ? 12_000 : 5_000);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class="toast" data-tone={toast.tone}>
          <span>{toast.text}</span>
          <button class="plain square" aria-label={t("close")} onClick={() => dismiss(toast.id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  );
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages that are not on a secure origin have no clipboard of their own.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  notify(t("copied"));
}
