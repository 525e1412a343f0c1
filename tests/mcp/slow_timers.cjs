// The conformance suite gives an answer as little as half a second. With this file it waits ten times as long, so that a slow machine is
// not taken for a server that does not answer.
const original = globalThis.setTimeout;
globalThis.setTimeout = (work, milliseconds, ...rest) => original(work, milliseconds >= 500 ? 10 * milliseconds : milliseconds, ...rest);
