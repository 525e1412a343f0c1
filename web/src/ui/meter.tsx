// A bar of parts of a whole, as SVG. The parts are named for screen readers.
interface Part {
  value: number;
  tone: string;
}

export function Meter({ parts, whole, label }: { parts: Part[]; whole: number; label: string }) {
  let from = 0;
  const drawn = parts.map((part) => {
    const width = whole > 0 ? Math.max(0, Math.min(100 - from, (part.value / whole) * 100)) : 0;
    const made = { x: from, width, tone: part.tone };
    from += width;
    return made;
  });
  return (
    <svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="whole" x="0" y="0" width="100" height="8" />
      {drawn.map((part) => part.width > 0 && <rect key={part.tone} data-tone={part.tone} x={part.x.toFixed(2)} y="0" width={part.width.toFixed(2)} height="8" />)}
    </svg>
  );
}
