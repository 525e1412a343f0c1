"""The console's files and `/whoami`: access, headers, and that the files are built from the sources in `web/`."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.scenarios.server_kit import key_for, served


async def test_the_page_and_its_files_need_no_key_and_allow_nothing_unsafe() -> None:
    async with served() as http:
        key = await key_for(http, "eyes", "read")
        page = await http.get("/")
        policy = page.headers["content-security-policy"]
        assert page.status_code == 200
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        for name in ("app.js", "app.css", "icon.svg"):
            assert f"./console/{name}" in page.text
            assert (await http.get(f"/console/{name}")).status_code == 200
        for name in ("index.html", "..%2f..%2fapp.py", "sources.sha256", "app.js.map"):
            assert (await http.get(f"/console/{name}")).status_code == 401
            assert (await http.get(f"/console/{name}", headers=key)).status_code == 404
        assert (await http.get("/whoami")).status_code == 401


async def test_files_are_compressed_and_revalidated() -> None:
    async with served() as http:
        plain = await http.get("/console/app.js", headers={"accept-encoding": "identity"})
        packed = await http.get("/console/app.js", headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
        assert packed.content == plain.content
        assert len(gzip.compress(plain.content)) < 150 * 1024
        again = await http.get("/console/app.js", headers={"if-none-match": plain.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_whoami_names_the_scopes_of_the_key() -> None:
    async with served() as http:
        who: dict[str, Any] = (await http.get("/whoami")).json()
        assert who["keyed"] is False
        assert "admin" in who["scopes"]
        who = (await http.get("/whoami", headers=await key_for(http, "eyes", "read"))).json()
        assert (who["name"], who["scopes"], who["keyed"]) == ("eyes", ["read"], True)


async def test_the_console_knows_how_long_calls_are_kept(sqlite: str) -> None:
    async with served(store=sqlite) as http:
        kept = (await http.get("/whoami")).json()["retention"]
        assert kept == {"seconds": 30 * 86_400, "bytes": 2 * 1024**3, "calls": None}
    async with served(retention=60.0, retention_calls=1_000) as http:
        kept = (await http.get("/whoami")).json()["retention"]
        assert kept == {"seconds": 60, "bytes": None, "calls": 1_000}


def test_the_built_files_come_from_the_sources_in_web(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/console.py", "--check"], check=False, cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert '"resolved"' not in (root / "web" / "package-lock.json").read_text(), "the lock contains a registry URL"
