// Invisible characters as marks: `⟨U+202E⟩`. A person who decides about a call must read what runs, so a character that turns text
// around, hides a part of it or takes no space is shown. The tables are those of src/clicket/printable.py; a test compares them.

const INVISIBLE = /[\u{0}-\u{1F}\u{7F}-\u{9F}\u{AD}-\u{AD}\u{34F}-\u{34F}\u{61C}-\u{61C}\u{115F}-\u{1160}\u{17B4}-\u{17B5}\u{180B}-\u{180F}\u{200B}-\u{200F}\u{2028}-\u{202E}\u{2060}-\u{206F}\u{2800}-\u{2800}\u{3164}-\u{3164}\u{D800}-\u{DFFF}\u{FE00}-\u{FE0F}\u{FEFF}-\u{FEFF}\u{FFA0}-\u{FFA0}\u{FFF0}-\u{FFFB}\u{13430}-\u{1345F}\u{1BCA0}-\u{1BCA3}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}]/u;
const EACH = /[\u{0}-\u{1F}\u{7F}-\u{9F}\u{AD}-\u{AD}\u{34F}-\u{34F}\u{61C}-\u{61C}\u{115F}-\u{1160}\u{17B4}-\u{17B5}\u{180B}-\u{180F}\u{200B}-\u{200F}\u{2028}-\u{202E}\u{2060}-\u{206F}\u{2800}-\u{2800}\u{3164}-\u{3164}\u{D800}-\u{DFFF}\u{FE00}-\u{FE0F}\u{FEFF}-\u{FEFF}\u{FFA0}-\u{FFA0}\u{FFF0}-\u{FFFB}\u{13430}-\u{1345F}\u{1BCA0}-\u{1BCA3}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}]/gu;
const IN_PROSE = /[\u{AD}-\u{AD}\u{180B}-\u{180F}\u{200B}-\u{200D}\u{2060}-\u{2060}\u{FE00}-\u{FE0F}\u{E0100}-\u{E01EF}]/u;

/** One run of text as it is, or one invisible character as its mark. */
export interface Piece {
  text: string;
  mark: boolean;
}

/** `prose`: joiners and variation selectors, which ordinary texts need, are left. Never for what a person decides about, or for ids. */
export function hasInvisible(text: string, prose = false): boolean {
  return INVISIBLE.test(text) && pieces(text, prose).some((each) => each.mark);
}

export function pieces(text: string, prose = false): Piece[] {
  const made: Piece[] = [];
  let last = 0;
  for (const { 0: found, index } of text.matchAll(EACH)) {
    if (found === "\n" || found === "\t" || (prose && IN_PROSE.test(found))) continue;
    if (index > last) made.push({ text: text.slice(last, index), mark: false });
    made.push({ text: `⟨U+${codeOf(found)}⟩`, mark: true });
    last = index + found.length;
  }
  if (last < text.length) made.push({ text: text.slice(last), mark: false });
  return made;
}

export const marked = (text: string, prose = false): string => (INVISIBLE.test(text) ? pieces(text, prose).map((each) => each.text).join("") : text);

/** The same JSON value, without invisible characters in its strings. */
export function escapedJson(text: string): string {
  return text.replace(EACH, (found) => (found === "\n" ? found : [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")));
}

const codeOf = (character: string): string => (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
