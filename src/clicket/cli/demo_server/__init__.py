"""What `clicket serve --demo` serves: tools, an agent with a rule-based model, and calls in every state. No keys, no network.

`tools` are the tools and their policy, `model` answers chats by fixed rules, `traffic` makes calls, `people` decides about some of
them, `webhook_receiver` gets notices, `demo` puts them together.
"""

from __future__ import annotations

from clicket.cli.demo_server.demo import Demo, demo_store

__all__ = ["Demo", "demo_store"]
