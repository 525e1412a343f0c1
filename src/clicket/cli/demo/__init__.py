"""The tour of `clicket demo`. It checks what it shows: if a check fails, the exit code is 1.

`tour` runs the steps over a store of its own, `steps` are those of one process, `crash` kills a process and recovers its calls,
`agent` does the same to an agent, `tools` are the tools, `output` prints.
"""
