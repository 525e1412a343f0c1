// Something that is loaded from the server, and again when it is asked for.
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { errorText } from "../api/client";

export interface Loaded<T> {
  value: ReadonlySignal<T | null>;
  error: ReadonlySignal<string>;
  reload: () => Promise<void>;
}

export function useLoaded<T>(load: () => Promise<T>, dependencies: unknown[], every = 0): Loaded<T> {
  const made = useMemo(() => {
    const value = signal<T | null>(null);
    const error = signal("");
    let generation = 0;
    const reload = async () => {
      const mine = ++generation;
      try {
        const found = await load();
        if (mine === generation) {
          value.value = found;
          error.value = "";
        }
      } catch (problem) {
        if (mine === generation) error.value = errorText(problem);
      }
    };
    return { value, error, reload, end: () => { generation++; } };
  }, dependencies);
  useEffect(() => {
    void made.reload();
    const timer = every ? setInterval(() => { if (!document.hidden) void made.reload(); }, every) : 0;
    return () => {
      clearInterval(timer);
      made.end();
    };
  }, [made]);
  return made;
}
