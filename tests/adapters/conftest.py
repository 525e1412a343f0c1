"""The fake provider on loopback, and a client of each SDK for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.adapters.provider import Provider, serving


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as made:
        yield made


@pytest.fixture
async def claude(provider: Provider) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=provider.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(provider: Provider) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="none", max_retries=0) as client:
        yield client
