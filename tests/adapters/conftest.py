"""The fake provider on loopback, and a client of each SDK for it.

The SDKs are imported when they are used: they take five seconds, and every process of a run of xdist collects every test. A run that
forks its processes imports them once, before it does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.adapters.provider import Provider, serving

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("forks") and any(item.path.parent == Path(__file__).parent for item in session.items):
        for name in ("anthropic", "openai"):
            import_module(name)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as made:
        yield made


@pytest.fixture
async def claude(provider: Provider) -> AsyncIterator[AsyncAnthropic]:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=provider.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(provider: Provider) -> AsyncIterator[AsyncOpenAI]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="none", max_retries=0) as client:
        yield client
