"""One run of a task, from its text to its result.

machine         `Machine`: drives a run through the states of the code table, one step for each state
task_parser     Markdown or code -> blocks of Python
validation      checks before anything runs: sizes, then compilation in the sandbox
session_slot    `SessionSlot`: the session that runs of one interpreter share; remembers what a lost session knew
messages        the messages of a run while it goes on, one function for each type
block_errors    why a block failed, as an error for the reader
result_builder  `ResultBuilder`: collects what happens into one `Result`
"""
