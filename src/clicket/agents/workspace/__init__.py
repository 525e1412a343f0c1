"""Files for an agent: one folder in which it reads, finds, writes and edits, and commands in the sandbox.

- `workspace`: `Workspace`, the middleware; which files the model has read, and in which version
- `reading`: the tools that read: lines of a file, folders, names, texts
- `editing`: the tools that write; each edit's digests before and after are on record before it has an effect
- `command`: the tool that runs a command in the sandbox
- `lines`: text of files, and what of it a model reads
"""

from __future__ import annotations

from clicket.agents.workspace.workspace import Workspace

__all__ = ["Workspace"]
