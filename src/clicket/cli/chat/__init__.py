"""The parts of `clicket chat`.

`prompt` reads lines and slash commands, `conversation` shows one turn after the other and asks for approvals, `agent_runner` runs
the agent in another thread, `turn_view` draws a turn's events, `live_calls` the tool calls that run, `keyboard` reads input and
signals.
"""
