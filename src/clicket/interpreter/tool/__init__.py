"""The tool `code_interpreter`, over the interpreters of many callers.

tool             `CodeInterpreter`: the tool; follows a run and reports it as the call's events
options          `InterpreterOptions`: its options, from Python or from `[interpreter]` of a settings file
pool             `Pool`: one interpreter per caller and thread, a limited number of sessions, one spare session
caller_shares    how many runs each caller may have at once
program_tools    which tools a program may use, listed for the program and for the model
program_uses     `ProgramUses`: the uses of one call, each a call of its own
signatures       tools as Python signatures
fetch            `fetch(url)` of programs: requests to declared hosts
message_batcher  bounds the messages of a run before they are written to the call's journal
"""
