// Short messages at the edge of the page, also for screen readers.
import { signal } from "@preact/signals";
import { t } from "../i18n";
import { Icon } from "./icon";

interface Notice {
  id: number;
  text: string;
  tone: "good" | "bad";
}

const notices = signal<Notice[]>([]);
let next = 1;

export function notify(text: string, tone: "good" | "bad" = "good"): void {
  const id = next++;
  notices.value = [...notices.value.slice(-3), { id, text, tone }];
  setTimeout(() => dismiss(id), tone === "bad" ? 12_000 : 5_000);
}

function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map((notice) => (
        <div key={notice.id} class="notice" data-tone={notice.tone}>
          <span>{notice.text}</span>
          <button class="plain square" aria-label={t("close")} onClick={() => dismiss(notice.id)}><Icon name="close" /></button>
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
