"""What runs in the sandboxed child process: the standard library only, and little of it before the first block. `interpreter/sandbox/boot`
calls `command_loop.main`; a block comes in as a command frame, runs in `block_runner`, and its outcome leaves as answer frames.

command_loop      the loop of commands: check, execute, preload; builds the answers
block_runner      compiles and runs one block; the only place that runs code of the program
code_check        compiles a block without running it: errors, imports, names
interrupts        SIGINT stops the running block, and nothing else
process_state     descriptors, streams, work folder and `__main__`, restored before each block
displays          rich representations of objects, sent as display frames
figures           matplotlib figures, drawn as PNG and SVG
variables         which global names a block created or changed
arrays            what is shown of numpy arrays and pandas tables
tracebacks        errors with the program's own lines
sources           the source text of blocks, for tracebacks and `linecache`
bounded_repr      `repr` of a value, cut while it is made; runs the program's `__repr__`
safe_repr         short text of any object, made without running code of the program
safe_builtins     the child's own copy of the builtins, which a program cannot break
import_hooks      callbacks after a module was imported
import_allowlist  the packages that a program may import
tools             `tools.NAME(...)`: tools of the runtime as functions of the program
use_mailbox       uses of tools as frames: sent, waited for by threads and event loops, answered
responses         the response of a `fetch`
file_locks        `fcntl.flock` where the sandbox refuses it
"""
