"""A web search service and your own documents as one engine. The service is a local fake; it fails once."""

import asyncio
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from clicket import Runtime
from clicket.search import Index, Mixed, deep_search
from clicket.web import SearXNG

OWN = [
    {"id": "tarn", "title": "Tarn Point Lighthouse", "text": "Lit in 1874. It was designed by Agnes Holloway."},
    {"id": "orme", "title": "Orme Island", "text": "Orme Island has 340 inhabitants, a school and two farms."},
    {"id": "ferry", "title": "Kittiwake", "text": "The ferry Kittiwake crosses to Orme Island in 50 minutes."},
]
WEB = [
    ("Agnes Holloway", "Agnes Holloway was an engineer. She was born in Quillby, a town of weavers."),
    ("Quillby", "Quillby lies in the valley of the river Senn."),
]
failures = [503]


class Service(BaseHTTPRequestHandler):
    """Answers like a SearXNG instance."""

    def do_GET(self) -> None:
        results = [
            {"title": title, "content": text, "url": f"https://wiki.test/{title.replace(' ', '_')}"}
            for title, text in WEB
        ]
        self.send_response(failures.pop() if failures else 200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"query": "", "results": results}).encode())

    def log_message(self, *_: object) -> None:
        pass


async def main(port: int) -> None:
    with Index.open() as index:
        index.add(OWN)
        async with Runtime() as rt:  # queries to the service are recorded as calls
            web = SearXNG(f"http://127.0.0.1:{port}", runtime=rt, rate="20/s")
            engine = Mixed([index, web])  # queried in parallel, merged by rank; one failure does not affect the other
            result = await deep_search("Where was the designer of the Tarn Point lighthouse born?", engine=engine)
            attempts = [len(call.attempts) for call in (await rt.history(tool="search_searxng")).items]
    print(result.answer)
    for one in result.documents[:3]:
        print(f"{one.score:6.2f}  {one.title}  {one.url or one.source}")
    print(f"{len(attempts)} queries to the service, attempts: {attempts}")
    assert any("born in Quillby" in one.text for one in result.citations)
    assert sum(attempts) == len(attempts) + 1  # the failure was retried


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    Thread(target=server.serve_forever, daemon=True).start()
    asyncio.run(main(server.server_port))
    server.shutdown()
