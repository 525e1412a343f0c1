// Every text that the console renders passes here, before Preact makes elements of it: invisible characters become marks. So no screen
// can forget it. Fields that a person edits keep their text; they show such a value as JSON, with escapes.
import { Fragment, options, type VNode } from "preact";
import { hasInvisible, marked, pieces } from "../model/printable";

/** Elements whose text the browser shows without elements in it. */
const PLAIN = new Set<unknown>(["option", "title", "text", "tspan", "desc"]);
const EDITED = new Set<unknown>(["textarea", "script", "style"]);
const ATTRIBUTES = ["title", "aria-label", "alt", "placeholder"];
let prose = false;

/** Elements that are made in here are ordinary text, such as an agent's answer: joiners and variation selectors in it stay. */
export function inProse<Made>(make: () => Made): Made {
  prose = true;
  try {
    return make();
  } finally {
    prose = false;
  }
}

const before = options.vnode;
options.vnode = (vnode: VNode) => {
  if (typeof vnode.type === "string" || vnode.type === Fragment) mark(vnode);
  before?.(vnode);
};

function mark(vnode: VNode): void {
  const props = vnode.props as Record<string, unknown>;
  for (const name of ATTRIBUTES) {
    const value = props[name];
    if (typeof value === "string") props[name] = marked(value);
  }
  const children = props["children"];
  if (children !== undefined && !EDITED.has(vnode.type)) props["children"] = shown(children, PLAIN.has(vnode.type));
}

function shown(child: unknown, plain: boolean): unknown {
  if (typeof child === "string") {
    if (!hasInvisible(child, prose)) return child;
    return plain ? marked(child, prose) : pieces(child, prose).map((each) => (each.mark ? <mark class="invisible">{each.text}</mark> : each.text));
  }
  return Array.isArray(child) && child.some((each) => typeof each === "string" || Array.isArray(each)) ? child.map((each) => shown(each, plain)) : child;
}
