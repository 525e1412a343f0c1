"""AG-UI 1.0 over the server's agents: `POST /ag-ui/{agent}`.

handlers     the route: which turn a run begins, continues or follows
run_input    what a client sends, checked
run_stream   the events of one run, from its first to its last
translator   events of an agent as events of AG-UI
wire         the form of AG-UI's events and messages
interrupts   calls that wait, as interrupts; a client's answers, as decisions
"""

from __future__ import annotations

from clicket.server.ag_ui.handlers import AgUiHandlers

__all__ = ["AgUiHandlers"]
