"""Webhooks: facts that reach people and other systems as signed requests, durably and at least once.

- `config`: the endpoints of the settings
- `facts`: what the events of a call say that endpoints may want to know
- `outbox`: notices on record; claimed, ended, listed, replayed
- `follower`: finds facts in the journal that a process died before it recorded
- `delivery`, `sender`, `signature`: sends notices in the Standard Webhooks form
- `approval_links`: single-use links to the approver page
- `service`: all of these for one runtime

The bus between processes (`clicket.stores.bus`) is another thing.
"""

from clicket.telemetry.webhooks.approval_links import ApprovalLinks, LinkRefused
from clicket.telemetry.webhooks.config import Endpoint, endpoints_of
from clicket.telemetry.webhooks.outbox import Outbox
from clicket.telemetry.webhooks.service import Webhooks

__all__ = ["ApprovalLinks", "Endpoint", "LinkRefused", "Outbox", "Webhooks", "endpoints_of"]
