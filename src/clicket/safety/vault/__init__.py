"""Secrets: recognised in arguments, masked everywhere but in the tool, and encrypted where a call must outlive its process.

- `hiding`: masks the secrets of a call in values, texts and errors
- `shapes`, `values`: finds tokens of well-known shapes, and known values, in a text
- `window`: masks text that arrives in pieces
- `vault`: `Vault`, which encrypts arguments at rest
- `logs`: masks log records
"""

from clicket.safety.vault.hiding import (
    Secrets,
    any_token,
    has_token,
    hide,
    hide_error,
    hide_said,
    hide_text,
    holds_secret,
    look,
    together,
    with_values,
)
from clicket.safety.vault.logs import guard_logs, hide_known, watch_for
from clicket.safety.vault.shapes import MASK, MIN_TOKEN, has_marker, hide_always
from clicket.safety.vault.vault import Identity, Vault, resembles, restored, still_masked
from clicket.safety.vault.window import Window

__all__ = [
    "MASK",
    "MIN_TOKEN",
    "Identity",
    "Secrets",
    "Vault",
    "Window",
    "any_token",
    "guard_logs",
    "has_marker",
    "has_token",
    "hide",
    "hide_always",
    "hide_error",
    "hide_known",
    "hide_said",
    "hide_text",
    "holds_secret",
    "look",
    "resembles",
    "restored",
    "still_masked",
    "together",
    "watch_for",
    "with_values",
]
