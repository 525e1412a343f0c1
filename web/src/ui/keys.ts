// Keys of the keyboard that work anywhere on a screen, except while text is being written.
export type Keys = { [key: string]: (event: KeyboardEvent) => void };

export function onKey(keys: Keys): () => void {
  const listen = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (target.closest("input:not([type=checkbox]), textarea, select, dialog, [role=tablist]")) return;
    if (event.key === "Enter" && target.closest("a, button, summary")) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  };
  addEventListener("keydown", listen);
  return () => removeEventListener("keydown", listen);
}
