// Tabs with the keys that people expect: arrows move, Home and End jump.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface Props {
  tabs: { id: string; label: string }[];
  value: string;
  onChange: (id: string) => void;
  label: string;
  children: ComponentChildren;
}

export function Tabs({ tabs, value, onChange, label, children }: Props) {
  const base = useId();
  const move = (event: KeyboardEvent) => {
    const at = tabs.findIndex((tab) => tab.id === value);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const tab = tabs[(next + tabs.length) % tabs.length];
    if (!tab) return;
    onChange(tab.id);
    document.getElementById(`${base}-${tab.id}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map((tab) => (
          <button key={tab.id} id={`${base}-${tab.id}`} role="tab" type="button" class="plain" aria-selected={tab.id === value} aria-controls={`${base}-panel`} tabIndex={tab.id === value ? 0 : -1} onClick={() => onChange(tab.id)}>
            {tab.label}
          </button>
        ))}
      </div>
      <div id={`${base}-panel`} role="tabpanel" aria-labelledby={`${base}-${value}`} class="tab-panel">{children}</div>
    </>
  );
}
