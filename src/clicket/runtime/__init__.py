"""The public `Runtime`, and all that it is made of: settings, composition, calls, views, schedules.

- `runtime`: `Runtime`
- `blocking`, `blocking_agents`, `blocking_base`: the same for programs without an event loop; what these classes share
- `calls/`: what a program does with calls: again, in batches and in bulk, approve, settle, follow
- `views/`: what `rt.NAME` shows
- `schedules/`: calls that are made again and again, by cron
- `agent_host`, `agent_config`: the runtime as agents use it; agents that the settings declare
- `reader`: calls of a store read without an engine, for `ps` and `show`
- `settings/`: one frozen `Settings` from arguments, environment and `clicket.toml`
- `compose`: the only wiring: settings become an engine; the only place that names a concrete store
"""
