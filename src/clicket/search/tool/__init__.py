"""`deep_search`, the function and the tool.

- `tool`: the function, the tool, what its calls return and what their events contain
- `options`: the options of the tool, from Python or from `[search]` of a settings file
- `engines`: opens the index, and opens it again if its file was replaced
"""
