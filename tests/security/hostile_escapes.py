"""Programs that try to reach the host: its files, secrets, network, rights and processes."""

from __future__ import annotations

from tests.security.hostile_program import EVERYWHERE, FENCED, WALLED, Hostile, attempt

FILES = [
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

SECRETS = [
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

NETWORK = [
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

POWERS = [
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

PROCESSES = [
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
        timeout=0.5,
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
