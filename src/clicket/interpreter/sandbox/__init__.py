"""Runs untrusted programs in sandbox processes: isolation layers, resource limits, and a complete clean-up.

`Sandbox.start` launches a program: `probe` has found out once which layers work here, `launchers` starts the child process,
`boot` applies the last layers inside it and hands over to the program; the host keeps a `SandboxProcess`.

No network: `bubblewrap` (a namespace of its own), `seccomp` (families of sockets), `landlock` (TCP).

On the host:

- `sandbox`: `Sandbox`, which starts programs and refuses to run below the required isolation level
- `isolation`: layer names, isolation levels, and the level that a set of layers gives
- `limits`: memory, processes, disk and file limits of one program
- `probe`: runs `probe_program` in the sandbox once and keeps the layers that it saw working
- `launchers`: start a program in namespaces (bubblewrap), below a supervisor, or as a plain child
- `launch_resources`: what one launch acquires (user id, folder, pipes, cgroup), and how a failed launch releases it
- `process`: `SandboxProcess`, with the pipes, signals, freezing, memory use and clean-up of one running program
- `process_tree`: how all processes of one program are found, signalled and killed
- `usage_monitor`: the layer `watch`, which measures memory and disk four times a second; `disk` counts files
- `workdirs`: the sandbox's folders on the host, locked while their process lives, swept after a crash
- `python_runtime`: the Python that programs run on, and our modules compiled for it
- `boot_config`: the first frame for `boot`, with the layers to apply inside and their rules
- `bubblewrap`, `cgroup`, `environment`, `identity`: one layer each, applied from the host
- `descriptors`: awaits reads and writes of pipes on the event loop

In the sandboxed child process (standard library only):

- `boot`: applies rlimits, Landlock and seccomp, then calls the program's `main`
- `rlimits`, `landlock`, `seccomp`: one layer each; `syscalls` has the call numbers, `libc` the system calls that Python lacks
- `frames`: length-prefixed JSON frames, blocking side
- `probe_program`: tests the layers from inside
- `command_program`: a command of the shell in place of a Python program

As a process of its own, between the two:

- `supervisor`: where namespaces are missing, adopts orphans of the program and kills what is left
"""

from clicket.interpreter.sandbox.isolation import LAYERS, LEVELS, Isolation, NotIsolated
from clicket.interpreter.sandbox.launch_resources import SandboxFailed
from clicket.interpreter.sandbox.limits import Limits, size_of
from clicket.interpreter.sandbox.process import Exit, SandboxProcess
from clicket.interpreter.sandbox.sandbox import Sandbox

__all__ = [
    "LAYERS",
    "LEVELS",
    "Exit",
    "Isolation",
    "Limits",
    "NotIsolated",
    "Sandbox",
    "SandboxFailed",
    "SandboxProcess",
    "size_of",
]
