"""HTTP operations as tools, by declaration. The example starts its own server on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from clicket import RestTool, Runtime


class Orders(BaseHTTPRequestHandler):
    """An API that answers 503 to its first request."""

    asked = 0

    def do_GET(self) -> None:
        Orders.asked += 1
        url = urlsplit(self.path)
        if Orders.asked == 1:
            self.send_response(503)
            self.send_header("Retry-After", "0.1")
            self.end_headers()
            return
        body = json.dumps({"path": url.path, "query": parse_qs(url.query), "total": 42}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Orders)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    order = RestTool(
        "order",
        "GET",
        base + "/orders/{number}",
        description="One order of the shop.",
        parameters={"number": {"type": "string"}, "currency": {"type": "string", "in": "query", "default": "EUR"}},
        allow_private=True,  # loopback and private networks are refused by default
    )
    guarded = RestTool("guarded", "GET", base + "/orders/1")
    async with Runtime(tools=[order, guarded], store="memory://") as rt:
        result = await rt.call("order", {"number": "a/b?c", "currency": "USD"})
        print(result.state, f"after {result.attempts} attempts:", result.output)
        refused = await rt.call("guarded")
        print(refused.state, refused.error)
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    asyncio.run(main())
