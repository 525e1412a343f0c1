// Serves aimock on a free port of loopback, and ends with its standard input: who started it cannot leave it behind.
// POST /script takes the answers to come, unchecked, so that wrong ones can be given; GET /script tells what was asked, as it
// was sent. (aimock's own journal keeps requests of Anthropic's protocol only as it translated them.)
import diagnostics from "node:diagnostics_channel";
import { pathToFileURL } from "node:url";

const { LLMock } = await import(pathToFileURL(process.argv[2]).href);
const mock = new LLMock({ host: "127.0.0.1", port: 0, strict: true, logLevel: "silent" });
const bodies = new WeakMap();
let asked = [];

diagnostics.subscribe("http.server.request.start", ({ request }) => {
  const parts = [];
  const push = request.push;
  request.push = function (part, ...more) {
    if (part !== null) parts.push(part);
    else if (request.url.startsWith("/v1/")) asked.push({ path: request.url, headers: request.headers, body: text() });
    return push.call(this, part, ...more);
  };
  const text = () => Buffer.concat(parts).toString();
  bodies.set(request, new Promise((resolve) => request.once("end", () => resolve(text()))));
});

mock.mount("/script", {
  async handleRequest(request, response) {
    if (request.method === "POST") {
      request.resume();
      const { fixtures } = JSON.parse(await bodies.get(request));
      mock.reset();
      asked = [];
      for (const { match, response, ...options } of fixtures) mock.on(match, response, options);
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ asked, journal: mock.getRequests() }));
    return true;
  },
});

console.log(await mock.start());
process.stdin.resume().on("close", () => process.exit(0));
