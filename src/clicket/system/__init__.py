"""What comes from the operating system: time, randomness, threads, processes, files.

- `operating_system`: time, randomness and threads, replaced as one; its names are the package's
- `bridge`: sync meets async, both ways, nowhere else
- `frames`: length-prefixed frames
- `process_table`: processes of this host
- `private_files`, `sqlite_file`: files that are their owner's alone; opening, migrating and refusing SQLite files
- `folder`: files beneath one folder; no path leads out of it
"""

from clicket.system.operating_system import (
    Done,
    Process,
    System,
    Threads,
    current,
    monotonic,
    now,
    random_bytes,
    random_generator,
    random_hex,
    random_text,
    uptime,
    use,
)

__all__ = [
    "Done",
    "Process",
    "System",
    "Threads",
    "current",
    "monotonic",
    "now",
    "random_bytes",
    "random_generator",
    "random_hex",
    "random_text",
    "uptime",
    "use",
]
