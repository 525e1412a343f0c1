// Keys of the keyboard that work anywhere on a screen, except while text is being written. A screen listens from its layout effect:
// what is drawn takes keys at once, and a usual effect waits for the next frame.
export type Keys = { [key: string]: (event: KeyboardEvent) => void };

export function onKey(keys: Keys): () => void {
  const listen = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const focused = event.target as HTMLElement;
    // A dialog that was just closed keeps the focus until the browser draws the page again.
    const target = focused.closest("dialog:not([open])") ? document.body : focused;
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
