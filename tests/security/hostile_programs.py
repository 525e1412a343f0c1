"""Programs that nobody should run unprotected, and what must come of each.

A program that gets through to something of the host prints ESCAPED. `{NAMES}` are canaries that the test sets out on the host:
a secret file, a folder that everybody may write to, listening sockets, a process to be signalled. What a weaker tier does not
hold is bounded in itself, so that the test can show it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FENCES", "PROGRAMS", "Hostile"]

FULL, PARTIAL, PROCESS = "full", "partial", "process"
EVERYWHERE = frozenset({FULL, PARTIAL, PROCESS})
FENCED = frozenset({FULL, PARTIAL})
WALLED = frozenset({FULL})

OK = frozenset({"ok"})
ERROR = frozenset({"error"})
ENDED = frozenset({"killed", "crashed"})
STOPPED = frozenset({"interrupted"})


class Hostile(NamedTuple):
    name: str
    code: str
    status: frozenset[str] = OK
    reason: frozenset[str] = frozenset()
    """One of these, where any is named."""
    says: str = ""
    """Must be in stdout."""
    error: str = ""
    """The type of the error, where one is named."""
    held_by: frozenset[str] = EVERYWHERE
    """The tiers in which it does not get through."""
    kept: bool | None = None
    """Whether the session's variables must be there afterwards (True), must not (False), or may be."""
    timeout: float = 20.0
    """Seconds; short for what would not end by itself, long for what must have the time to."""
    dangerous: bool = False
    """Never to be run in a tier that does not hold it."""


def attempt(body: str) -> str:
    """`body` as an attempt on the host: reaching its end is an escape."""
    inner = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"import os, socket, sys\ntry:\n{inner}\n    print('ESCAPED')\nexcept BaseException as e:\n    print('held', type(e).__name__, e)"


_FILES = [
    Hostile(
        "read a secret of the host", attempt("assert 'canary' in open({SECRET!r}).read()"), held_by=FENCED, kept=True
    ),
    Hostile("list a folder of the host", attempt("assert os.listdir({FOLDER!r})"), held_by=FENCED),
    Hostile(
        "write outside of the work folder",
        attempt("open(os.path.join({FOLDER!r}, 'mine'), 'w').write('x')"),
        held_by=FENCED,
    ),
    Hostile("write over the interpreter", attempt("open(os.__file__, 'r+b').close()"), held_by=FENCED),
    Hostile(
        "write over the worker",
        attempt(
            "import glob\nfor p in [p for p in sys.path if 'clicket' in p] + ['/run/clicket']:\n    open(os.path.join(p, 'x.py'), 'w').write('x')"
        ),
        held_by=FENCED,
    ),
    Hostile("read the shadow file", attempt("assert ':' in open('/etc/shadow').read()"), held_by=FENCED),
    Hostile(
        "read root's home",
        attempt("assert [n for n in os.listdir('/root') if os.path.isfile('/root/' + n)]"),
        held_by=FENCED,
    ),
    Hostile(
        "rename over a folder of the host",
        attempt("open('a', 'w').close(); os.rename('a', os.path.join({FOLDER!r}, 'renamed'))"),
        held_by=FENCED,
    ),
    Hostile(
        "link to a secret",
        attempt("os.symlink({SECRET!r}, 'link'); assert 'canary' in open('link').read()"),
        held_by=FENCED,
    ),
    Hostile(
        "hard link to a secret",
        attempt("os.link({SECRET!r}, 'hard'); assert 'canary' in open('hard').read()"),
        held_by=FENCED,
    ),
    Hostile(
        "read through the host's root in proc",
        attempt("assert 'canary' in open('/proc/%d/root' % {HOST} + {SECRET!r}).read()"),
        held_by=FENCED,
    ),
    Hostile(
        "climb out by file descriptors",
        attempt(
            "found = [fd for fd in range(5, 1024) if os.path.exists('/proc/self/fd/%d' % fd) and os.path.isdir('/proc/self/fd/%d' % fd)]\nassert any(os.listdir(fd) for fd in found)"
        ),
    ),
    Hostile(
        "make a device",
        attempt(
            "import stat\nos.mknod('disk', stat.S_IFBLK | 0o666, os.makedev(254, 0)); os.open('disk', os.O_RDONLY)"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "open a disk",
        attempt(
            "import glob\n[os.open(p, os.O_RDONLY) for p in ['/dev/vda', '/dev/sda', '/dev/mem', '/dev/kmsg'] if os.path.exists(p)][0]"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "change a file's mode by a descriptor for reading",
        attempt("fd = os.open(os.__file__, os.O_RDONLY)\nos.fchmod(fd, os.fstat(fd).st_mode & 0o7777)"),
        held_by=FENCED,
    ),
    Hostile(
        "lock a file of the host",
        attempt("import fcntl\nfcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)"),
        held_by=FENCED,
    ),
    Hostile("set kernel knobs", attempt("open('/proc/sys/vm/drop_caches', 'w').write('0')"), held_by=FENCED),
    Hostile(
        "see the host's cgroups writable",
        attempt("os.mkdir('/sys/fs/cgroup/escaped'); os.rmdir('/sys/fs/cgroup/escaped')"),
        held_by=FENCED,
    ),
    Hostile(
        "unpickle a command",
        "import pickle, os\nclass C:\n    def __reduce__(self): return (os.system, ('echo ran inside; cat %s' % {SECRET!r},))\npickle.loads(pickle.dumps(C()))\nprint('done')".replace(
            "cat %s", "cat %s 2>/dev/null"
        ),
        says="ran inside",
        held_by=EVERYWHERE,
    ),
]

_SECRETS = [
    Hostile(
        "find a secret in the environment",
        attempt("assert {ENV!r} in str(os.environ) + open('/proc/self/environ').read()"),
    ),
    Hostile(
        "find a secret in the host's environment",
        attempt("assert {ENV!r}.encode() in open('/proc/%d/environ' % {HOST}, 'rb').read()"),
        held_by=FENCED,
    ),
    Hostile(
        "find a secret in any environment",
        attempt(
            "found = b''\nfor p in os.listdir('/proc'):\n    try: found += open('/proc/%s/environ' % p, 'rb').read()\n    except OSError: pass\nassert {ENV!r}.encode() in found"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "see the host's processes",
        attempt(
            "assert os.path.exists('/proc/%d/cmdline' % {VICTIM}) and b'canary' in open('/proc/%d/cmdline' % {VICTIM}, 'rb').read()"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "find paths of the host in pid 1", attempt("assert {FOLDER!r}.encode() in open('/proc/1/cmdline', 'rb').read()")
    ),
]

_NETWORK = [
    Hostile("connect by TCP", attempt("socket.create_connection(('127.0.0.1', {TCP}), 2)"), held_by=FENCED),
    Hostile(
        "send by UDP",
        attempt("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', {UDP})); s.send(b'x')"),
        held_by=FENCED,
    ),
    Hostile("connect by IPv6", attempt("socket.socket(socket.AF_INET6)"), held_by=FENCED),
    Hostile(
        "resolve a name",
        attempt("socket.getaddrinfo('localhost', 80) and socket.create_connection(('localhost', {TCP}), 2)"),
        held_by=FENCED,
    ),
    Hostile("listen", attempt("s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"), held_by=FENCED),
    Hostile(
        "connect to a socket file of the host",
        attempt("s = socket.socket(socket.AF_UNIX); s.connect({UNIX!r})"),
        held_by=FENCED,
    ),
    Hostile(
        "connect to an abstract socket of the host",
        attempt("s = socket.socket(socket.AF_UNIX); s.connect('\\0' + {ABSTRACT!r})"),
        held_by=FENCED,
    ),
    Hostile("open a raw socket", attempt("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"), held_by=FENCED),
    Hostile("open a netlink socket", attempt("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"), held_by=FENCED),
    Hostile(
        "reach out with curl or the like",
        attempt(
            "import subprocess\nassert subprocess.run(['sh', '-c', 'exec 3<>/dev/tcp/127.0.0.1/{TCP}'], executable='/bin/bash', capture_output=True).returncode == 0"
        ),
        held_by=FENCED,
    ),
]

_POWERS = [
    Hostile("signal a process of the host", attempt("os.kill({VICTIM}, 0)"), held_by=FENCED),
    Hostile("signal the host process", attempt("os.kill({HOST}, 0)"), held_by=FENCED),
    Hostile(
        "trace a process",
        attempt(
            "import ctypes\nassert ctypes.CDLL(None, use_errno=True).ptrace(16, {VICTIM}, 0, 0) == 0\nctypes.CDLL(None).ptrace(17, {VICTIM}, 0, 0)"
        ),
        held_by=FENCED,
    ),
    Hostile("trace itself", attempt("import ctypes\nassert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0"), held_by=FENCED),
    Hostile(
        "make a user namespace",
        attempt("import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0"),
        held_by=FENCED,
    ),
    Hostile(
        "make a user namespace by clone",
        attempt(
            "import ctypes, platform\nn = {{'x86_64': 56}}.get(platform.machine(), 220)\npid = ctypes.CDLL(None).syscall(n, 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\nassert pid > 0"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "mount",
        attempt(
            "import ctypes\nassert ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0\nctypes.CDLL(None).umount(b'/tmp')"
        ),
        held_by=FENCED,
    ),
    Hostile("change the root", attempt("os.chroot('.')"), held_by=FENCED),
    Hostile(
        "become root",
        attempt("os.setuid(0)\nassert int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16)"),
        held_by=FENCED,
    ),
    Hostile(
        "make a setuid shell",
        attempt(
            "import shutil\nshutil.copy('/bin/sh', 'sh'); os.chmod('sh', 0o4755)\nimport subprocess\nassert subprocess.run(['./sh', '-p', '-c', 'id -u'], capture_output=True, text=True).stdout.strip() == '0'"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "load a BPF program",
        attempt(
            "import ctypes, platform\nn = {{'x86_64': 321}}.get(platform.machine(), 280)\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.syscall(n, 0, 0, 0)\nassert ctypes.get_errno() not in (1, 38)"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "use io_uring",
        attempt(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.syscall(425, 1, 0)\nassert ctypes.get_errno() not in (1, 38)"
        ),
        held_by=FENCED,
    ),
    Hostile("make anonymous memory files", attempt("os.memfd_create('x')"), held_by=FENCED),
    Hostile(
        "turn the clock", attempt("import time\ntime.clock_settime(time.CLOCK_REALTIME, time.time())"), held_by=FENCED
    ),
    Hostile(
        "raise its own limits",
        attempt("import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (100_000, 100_000))"),
        held_by=FENCED,
    ),
    Hostile("raise its own priority", attempt("os.nice(-5)"), held_by=FENCED),
    Hostile(
        "stuff a terminal",
        attempt("import fcntl, termios\nfd = os.open('/dev/tty', os.O_RDWR)\nfcntl.ioctl(fd, termios.TIOCSTI, b'x')"),
    ),
    Hostile(
        "kill everything it can see",
        "import os, signal\nos.kill(-1, signal.SIGKILL)\nprint('after')",
        status=frozenset({"ok", "error", "killed", "crashed"}),
        held_by=WALLED,
        dangerous=True,
    ),
]

_TIME = [
    Hostile("loop for ever", "while True: pass", status=STOPPED, reason=frozenset({"timeout"}), kept=True, timeout=1.0),
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
        timeout=1.0,
    ),
    Hostile(
        "ignore every signal",
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
        status=frozenset({"killed"}),
        reason=frozenset({"timeout"}),
        kept=False,
        timeout=1.0,
    ),
    Hostile(
        "block every signal",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
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
        timeout=1.0,
    ),
    Hostile("a power tower", "x = 9**9**8", status=frozenset({"interrupted", "killed", "error"}), timeout=1.0),
    Hostile(
        "a regular expression that explodes",
        "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
        status=STOPPED,
        reason=frozenset({"timeout"}),
        timeout=1.0,
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

_MEMORY = [
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

_PROCESSES = [
    Hostile(
        "fork three hundred times",
        attempt(
            "n = 0\nchildren = []\ntry:\n    for _ in range(300):\n        pid = os.fork()\n        if pid == 0:\n            import time; time.sleep(20); os._exit(0)\n        children.append(pid)\nfinally:\n    import signal\n    for pid in children: os.kill(pid, signal.SIGKILL)\n    for pid in children: os.waitpid(pid, 0)"
        ),
        held_by=FENCED,
    ),
    Hostile(
        "start three hundred threads",
        "import threading, time\nstop = threading.Event()\ntry:\n    for n in range(300): threading.Thread(target=stop.wait, daemon=True).start()\n    print('started all')\nexcept RuntimeError: print('held at', n)\nfinally: stop.set()",
        held_by=EVERYWHERE,
    ),
    Hostile(
        "a fork bomb in the shell",
        "import subprocess\nsubprocess.run(['sh', '-c', 'b() { b | b & }; b; sleep 0.2'], capture_output=True, timeout=1)",
        status=frozenset({"ok", "error", "interrupted", "killed"}),
        held_by=WALLED,
        dangerous=True,
        timeout=1.0,
    ),
    Hostile(
        "leave a daemon behind",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import time\n        os.closerange(0, 3)\n        time.sleep(600)\n    os._exit(0)\nos.wait()\nprint('left it')",
        says="left it",
        kept=True,
    ),
    Hostile(
        "leave a process of another session behind",
        "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\nprint('left it')",
        says="left it",
        kept=True,
    ),
    Hostile("return twice from fork", "import os\npid = os.fork()\nprint('one of two')", says="one of two", kept=True),
    Hostile(
        "leave a thread running",
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(600)).start()\nprint('left it')",
        says="left it",
        kept=True,
    ),
]

_ENDINGS = [
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

_STREAMS = [
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
        timeout=1.0,
    ),
    Hostile(
        "print what is no text", "import os\nos.write(1, bytes(range(256)))\nprint('\\nafter')", says="after", kept=True
    ),
    Hostile("print lone surrogates", "print('\\ud800 after')", status=frozenset({"ok", "error"}), kept=True),
    Hostile("a value of lone surrogates", "'\\udfff'", kept=True),
    Hostile("colour codes and bells", "print('\\x1b[2J\\x07\\x1b]0;title\\x07 after')", says="after", kept=True),
]

_TRICKS = [
    Hostile(
        "a repr without end",
        "class R:\n    def __repr__(self):\n        while True: pass\nR()",
        status=frozenset({"interrupted", "error"}),
        kept=True,
        timeout=1.0,
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

_DISK = [
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
        "import zipfile\nwith zipfile.ZipFile('b.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', bytes(2**27))\nwith zipfile.ZipFile('b.zip') as z: z.extractall()",
        status=frozenset({"error", "killed", "crashed", "ok"}),
    ),
    Hostile(
        "files that are none",
        "import os, socket\nos.mkfifo('fifo'); os.symlink('/etc/passwd', 'link'); os.symlink('loop', 'loop'); open('two', 'w').close(); os.link('two', 'names')\nos.symlink('/', 'root')\nopen(b'bad\\xff', 'w').close()\nprint('made')",
        says="made",
        kept=True,
    ),
]

FENCES: list[Hostile] = [*_FILES, *_SECRETS, *_NETWORK, *_POWERS, *_PROCESSES]
"""Those whose outcome depends on the layers."""

PROGRAMS: list[Hostile] = [
    *_FILES, *_SECRETS, *_NETWORK, *_POWERS, *_TIME, *_MEMORY, *_PROCESSES, *_ENDINGS, *_STREAMS, *_TRICKS, *_DISK,
]  # fmt: skip
