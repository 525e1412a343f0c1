"""`deep_search`, the function and the tool.

- `tool`: the function, the tool, its stream
- `options`: the options of the tool, from Python or from `[search]` of a settings file
- `engines`: opens the index, and opens it again if its file was replaced
- `output`: what the call returns, and what its events contain
"""
