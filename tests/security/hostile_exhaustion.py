"""Programs that use up time, memory, output or disk, end in odd ways, or break the worker."""

from __future__ import annotations

from tests.security.hostile_program import ENDED, ERROR, EVERYWHERE, STOPPED, Hostile

SOON = 0.3
"""Seconds for programs that compute until they are stopped, and are stopped in the same way wherever that meets them."""

TIME = [
    Hostile(
        "loop for ever", "while True: pass", status=STOPPED, reason=frozenset({"timeout"}), kept=True, timeout=SOON
    ),
    Hostile(
        "sleep for ever",
        "import time; time.sleep(3600)",
        status=STOPPED,
        reason=frozenset({"timeout"}),
        kept=True,
        timeout=1.0,
    ),
    Hostile(
        "swallow every exception",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        status=frozenset({"killed", "interrupted"}),
        reason=frozenset({"timeout"}),
        timeout=SOON,
    ),
    Hostile(
        "ignore every signal",
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nimport time; time.sleep(3600)",
        status=frozenset({"killed"}),
        reason=frozenset({"timeout"}),
        kept=False,
        timeout=1.0,
    ),
    Hostile(
        "block every signal",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nimport time; time.sleep(3600)",
        status=frozenset({"killed"}),
        reason=frozenset({"timeout"}),
        kept=False,
        timeout=1.0,
    ),
    Hostile(
        "sum in C",
        "sum(range(10**13))",
        status=frozenset({"killed"}),
        reason=frozenset({"timeout"}),
        kept=False,
        timeout=0.5,
    ),
    Hostile("a power tower", "x = 9**9**8", status=frozenset({"interrupted", "killed", "error"}), timeout=SOON),
    Hostile(
        "a regular expression that explodes",
        "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
        status=STOPPED,
        reason=frozenset({"timeout"}),
        timeout=SOON,
    ),
    Hostile(
        "stop itself",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        status=frozenset({"killed"}),
        reason=frozenset({"timeout"}),
        kept=False,
        timeout=1.0,
    ),
    Hostile(
        "sleep in an await",
        "import asyncio\nawait asyncio.sleep(3600)",
        status=STOPPED,
        reason=frozenset({"timeout"}),
        kept=True,
        timeout=1.0,
    ),
    Hostile(
        "sleep in an exit handler",
        "import atexit, time\natexit.register(time.sleep, 3600)\nprint('registered')",
        says="registered",
        kept=True,
    ),
    Hostile(
        "sleep in a finaliser",
        "import time\nclass D:\n    def __del__(self): time.sleep(3600)\nd = D(); del d",
        status=frozenset({"interrupted", "ok", "error"}),
        timeout=1.0,
    ),
    Hostile(
        "an alarm of its own",
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\nimport time; time.sleep(1)",
        status=frozenset({"crashed", "ok"}),
    ),
    Hostile("wait for input", "input()", status=ERROR, error="EOFError", kept=True),
]

MEMORY = [
    Hostile(
        "take it all at once", "x = bytearray(10 * 2**30)", status=frozenset({"error"}), error="MemoryError", kept=True
    ),
    Hostile(
        "take it slowly",
        "import time\nx = []\nwhile True:\n    x.append(bytearray(8 * 2**20)); time.sleep(0.002)",
        status=frozenset({"killed", "error"}),
    ),
    Hostile(
        "take shared pages",
        "import mmap, time\nm = [mmap.mmap(-1, 32 * 2**20) for _ in range(12)]\nfor each in m:\n    each.write(b'x' * (32 * 2**20))\ntime.sleep(30)",
        status=frozenset({"killed", "error"}),
    ),
    Hostile(
        "let children take it",
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        try: x = bytearray(150 * 2**20); time.sleep(20)\n        finally: os._exit(0)\ntime.sleep(1)\nprint('alive')",
        status=frozenset({"ok", "killed", "interrupted", "error"}),
    ),
    Hostile(
        "fill the scratch folders",
        "import os\nfor folder in ('/tmp', '/dev/shm'):\n    try:\n        with open(folder + '/big', 'wb') as f:\n            for _ in range(300): f.write(b'x' * 2**20)\n        print('filled', folder)\n    except OSError as e: print('held', folder, e)\n    finally:\n        try: os.remove(folder + '/big')\n        except OSError: pass",
        status=frozenset({"ok", "killed"}),
        held_by=EVERYWHERE,
    ),
    Hostile("recurse for ever", "def f(): return f()\nf()", status=ERROR, error="RecursionError", kept=True),
    Hostile(
        "recurse without a limit",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
        status=frozenset({"crashed", "killed", "error"}),
    ),
    Hostile("a giant string of digits", "print(len(str(10**6000)))", status=ERROR, error="ValueError", kept=True),
]

ENDINGS = [
    Hostile("leave at once", "import os; os._exit(7)", status=frozenset({"crashed"}), kept=False),
    Hostile("abort", "import os; os.abort()", status=frozenset({"crashed"}), reason=frozenset({"SIGABRT"}), kept=False),
    Hostile(
        "read address zero",
        "import ctypes; ctypes.string_at(0)",
        status=frozenset({"crashed"}),
        reason=frozenset({"SIGSEGV"}),
        kept=False,
    ),
    Hostile("kill itself", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", status=ENDED, kept=False),
    Hostile("exit", "import sys; sys.exit(3)", status=frozenset({"exit"}), kept=False),
    Hostile(
        "raise SystemExit in a thread",
        "import threading, sys\nt = threading.Thread(target=sys.exit); t.start(); t.join(); print('on')",
        says="on",
        kept=True,
    ),
    Hostile(
        "raise KeyboardInterrupt", "raise KeyboardInterrupt", status=frozenset({"error", "interrupted"}), kept=True
    ),
]

STREAMS = [
    Hostile(
        "print a hundred megabytes",
        "s = 'x' * 2**20\nfor _ in range(100): print(s)",
        status=frozenset({"killed"}),
        reason=frozenset({"output"}),
        kept=False,
    ),
    Hostile(
        "write raw bytes",
        "import os\nwhile True: os.write(1, b'\\xff\\x00' * 65536)",
        status=frozenset({"killed"}),
        reason=frozenset({"output"}),
        kept=False,
    ),
    Hostile(
        "print through a child",
        "import subprocess\nsubprocess.run(['yes'])",
        status=frozenset({"killed"}),
        reason=frozenset({"output"}),
        kept=False,
    ),
    Hostile("close its streams", "import os\nos.close(1); os.close(2)", kept=True),
    Hostile("close sys.stdout", "import sys\nsys.stdout.close()", status=frozenset({"ok", "error"}), kept=True),
    Hostile("put something else in place of its streams", "import sys\nsys.stdout = sys.stderr = None", kept=True),
    Hostile(
        "close everything", "import os\nos.closerange(0, 1024)", status=frozenset({"crashed", "killed"}), kept=False
    ),
    Hostile(
        "write junk to every descriptor",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 64)\n    except OSError: pass\nimport time; time.sleep(1)",
        status=frozenset({"killed", "crashed"}),
        kept=False,
    ),
    Hostile(
        "announce a frame of four gigabytes",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff\\xff\\xff\\xff')\n    except OSError: pass\nimport time; time.sleep(1)",
        status=frozenset({"killed", "crashed"}),
        reason=frozenset({"protocol", "SIGPIPE"}),
        kept=False,
    ),
    Hostile(
        "forge its own end",
        "import os, json\nfor n in range(64):\n    b = json.dumps({'type': 'done', 'id': n, 'status': 'ok', 'value': 'forged', 'error': None, 'exit_code': None, 'variables': [], 'threads': 1, 'names': []}).encode()\n    try: os.write(4, len(b).to_bytes(4, 'big') + b)\n    except OSError: pass\nwhile True: pass",
        status=frozenset({"ok", "killed", "interrupted", "error", "crashed"}),
        timeout=SOON,
    ),
    Hostile(
        "print what is not a text",
        "import os\nos.write(1, bytes(range(256)))\nprint('\\nafter')",
        says="after",
        kept=True,
    ),
    Hostile("print lone surrogates", "print('\\ud800 after')", status=frozenset({"ok", "error"}), kept=True),
    Hostile("a value of lone surrogates", "'\\udfff'", kept=True),
    Hostile("colour codes and bells", "print('\\x1b[2J\\x07\\x1b]0;title\\x07 after')", says="after", kept=True),
]

TRICKS = [
    Hostile(
        "a repr without end",
        "class R:\n    def __repr__(self):\n        while True: pass\nR()",
        status=frozenset({"interrupted", "error"}),
        kept=True,
        timeout=SOON,
    ),
    Hostile(
        "a repr that raises",
        "class R:\n    def __repr__(self): raise ValueError('no')\nr = R()\nr",
        status=frozenset({"error", "ok"}),
        kept=True,
    ),
    Hostile("a repr of a hundred megabytes", "'x' * 10**8", kept=True),
    Hostile(
        "an error whose text raises",
        "class E(Exception):\n    def __str__(self): raise ValueError('no')\nraise E",
        status=ERROR,
        kept=True,
    ),
    Hostile(
        "an error of a hundred megabytes", "raise ValueError('x' * 10**8)", status=ERROR, error="ValueError", kept=True
    ),
    Hostile(
        "a variable that lies about itself",
        "class L:\n    __class__ = property(lambda s: 1 / 0)\n    def __len__(self): return 10**9\n    def __getattribute__(self, n): raise RuntimeError(n)\nlies = L()",
        kept=True,
    ),
    Hostile(
        "a dict that grows as it is read",
        "class D(dict):\n    def items(self):\n        while True: yield 1, 1\n    def __iter__(self): return iter(int, 1)\nd = D()",
        kept=True,
    ),
    Hostile(
        "break the builtins",
        "import builtins\nfor n in ('open', 'print', 'len', 'compile', 'exec', 'repr', 'type', 'isinstance'): setattr(builtins, n, None)",
        status=frozenset({"ok", "error", "crashed"}),
    ),
    Hostile(
        "break json and os",
        "import json, os, sys\njson.dumps = json.loads = os.write = os.read = sys.exc_info = None",
        status=frozenset({"ok", "error", "crashed"}),
    ),
    Hostile("empty sys.modules", "import sys\nsys.modules.clear()", status=frozenset({"ok", "error", "crashed"})),
    Hostile("clear its globals", "globals().clear()", status=frozenset({"ok", "error", "crashed"})),
    Hostile(
        "walk up the frames",
        "import sys\nf = sys._getframe()\nwhile f is not None:\n    try: f.f_locals.clear(); f.f_globals.clear()\n    except Exception: pass\n    f = f.f_back",
        status=frozenset({"ok", "error", "crashed", "killed"}),
    ),
    Hostile(
        "trace every line",
        "import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: 1 / 0)\ndef f(): pass\nf()",
        status=frozenset({"ok", "error"}),
    ),
    Hostile(
        "shadow a module with a file",
        "open('json.py', 'w').write('raise ImportError')\nopen('traceback.py', 'w').write('raise ImportError')\nopen('ast.py', 'w').write('raise ImportError')\n1 / 0",
        status=ERROR,
        error="ZeroDivisionError",
        kept=True,
    ),
    Hostile(
        "remove the work folder",
        "import shutil, os\nshutil.rmtree('.', ignore_errors=True)\nshutil.rmtree(os.getcwd(), ignore_errors=True)\nprint('gone')",
        says="gone",
        kept=True,
    ),
    Hostile("NUL in the code", "x = 1\x00", status=ERROR, kept=True),
    Hostile("a hundred thousand parentheses", "(" * 100_000, status=ERROR, kept=True),
    Hostile("deep nesting that parses", "x = " + "-" * 50_000 + "1", status=frozenset({"error", "crashed", "ok"})),
    Hostile("a hundred thousand lines", "x = 1\n" * 100_000, kept=True),
    Hostile(
        "change the name of the process", "import ctypes\nctypes.CDLL(None).prctl(15, b'init', 0, 0, 0)", kept=True
    ),
]

DISK = [
    Hostile(
        "one big file",
        "with open('big', 'wb') as f:\n    for _ in range(200): f.write(b'x' * 2**20)",
        status=frozenset({"error", "killed", "crashed"}),
    ),
    Hostile(
        "a sparse file", "with open('sparse', 'wb') as f: f.truncate(2**40)", status=frozenset({"error", "crashed"})
    ),
    Hostile(
        "many files",
        "for n in range(10**6):\n    with open(f'f{n}', 'w') as f: f.write('x' * 1000)",
        status=frozenset({"killed", "interrupted"}),
    ),
    Hostile(
        "many folders",
        "import os\nfor n in range(10**6): os.mkdir(f'd{n}')",
        status=frozenset({"killed", "interrupted"}),
    ),
    Hostile(
        "deep folders",
        "import os\nfor n in range(3000):\n    os.mkdir('d'); os.chdir('d')\nprint('deep')",
        status=frozenset({"ok", "error", "killed", "interrupted"}),
    ),
    Hostile(
        "a bomb of zeros",
        "import zipfile\nwith zipfile.ZipFile('b.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', bytes(2**25))\nwith zipfile.ZipFile('b.zip') as z: z.extractall()",
        status=frozenset({"error", "killed", "crashed", "ok"}),
    ),
    Hostile(
        "files that are none",
        "import os, socket\nos.mkfifo('fifo'); os.symlink('/etc/passwd', 'link'); os.symlink('loop', 'loop'); open('two', 'w').close(); os.link('two', 'names')\nos.symlink('/', 'root')\nopen(b'bad\\xff', 'w').close()\nprint('made')",
        says="made",
        kept=True,
    ),
]
