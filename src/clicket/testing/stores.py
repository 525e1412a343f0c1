"""The laws of `ports.store` as checks, for every store that ships here and for yours.

Each check takes a factory; every call of it gives another store object. For `store_contract` each may be a place of its own;
for `shared_store_contract` all must open the same place, as two processes do.

    @pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
    async def test_my_store(check):
        await check(MyStore)
"""

from __future__ import annotations

from collections.abc import Sequence

from clicket.testing import (
    store_documents,
    store_keeping,
    store_laws,
    store_records,
    store_records_shared,
    store_sharing,
)
from clicket.testing.store_kit import Check

__all__ = ["Check", "shared_store_contract", "store_contract"]

store_contract: Sequence[Check] = (*store_laws.laws, *store_keeping.laws, *store_records.laws, *store_documents.laws)
shared_store_contract: Sequence[Check] = (*store_sharing.laws, *store_records_shared.laws)
