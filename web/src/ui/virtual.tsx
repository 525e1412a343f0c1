// A list that draws only the rows in view. All rows have one height.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const OVERSCAN = 8;

interface Props {
  count: number;
  rowHeight: number;
  /** How many rows were ever put before the first one: a list that is scrolled keeps showing the same rows. */
  added: number;
  row: (index: number) => ComponentChildren;
  onEnd: () => void;
  scroller: RefObject<HTMLDivElement | null>;
}

export function VirtualRows({ count, rowHeight, added, row, onEnd, scroller }: Props) {
  const [view, setView] = useState({ top: 0, height: 800 });
  const before = useRef(added);

  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && added > before.current && element.scrollTop > rowHeight / 2) {
      element.scrollTop += (added - before.current) * rowHeight;
    }
    before.current = added;
  }, [added]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
  useEffect(() => {
    if (last >= count - OVERSCAN * 2) onEnd();
  }, [last, count]);

  const rows: ComponentChildren[] = [];
  for (let index = first; index < last; index++) rows.push(row(index));
  return (
    <div class="rows" role="presentation" style={{ height: `${count * rowHeight}px` }}>
      <div style={{ transform: `translateY(${first * rowHeight}px)` }} role="presentation">{rows}</div>
    </div>
  );
}
