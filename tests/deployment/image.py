"""The root of a serving image, built by hand from a few files, and running a program in it."""

import os
import pathlib
import re
import shutil
import subprocess

LIBRARIES = pathlib.PurePosixPath("/lib/x86_64-linux-gnu")
UID = 31337  # Nobody's here, and in no file of the image.


def libraries_of(*programs):
    """The shared libraries that the loader would take for them, the loader among them."""
    shown = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=True).stdout
    return {pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", shown)}


class Image:
    """Files alone: no shell, no compiler, no /proc, no /tmp, nothing that the programs do not name."""

    def __init__(self, root):
        self.root = root
        root.mkdir()

    def add(self, source, place, mode=0o555):
        to = self.root / place.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)  # Two programs share libraries.
        shutil.copyfile(source, to)
        to.chmod(mode)

    def add_program(self, source, place):
        self.add(source, place)
        for library in libraries_of(source):
            # The loader's own path is in the program; the rest is found by name.
            name = library.name
            self.add(library, str(library) if name.startswith("ld-linux") else str(LIBRARIES / name))

    def listing(self):
        """What lies there, with size and time of change: equal listings mean that nothing was written."""
        seen = {}
        for path in sorted([self.root, *self.root.rglob("*")]):
            status = path.lstat()
            seen[str(path.relative_to(self.root))] = (status.st_mode, status.st_size, status.st_mtime_ns)
        return seen


# The root is bound over itself to be remounted, which a user's own namespace does not always allow; chroot
# then drops to a user id that no file knows.
ENTER = """set -e
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"{may_fail}
cd "$0"
exec env -i {env} "$(command -v chroot)" {user} "$0" "$@"
"""


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # chroot's folder is in no user's.
TOOLS = ["unshare", "chroot", "mount", "env", "sh", "ldd"]
NAMESPACES = [
    (["unshare", "--net", "--mount", "--propagation", "private"], UID),
    # Without root, only one id can be had in a namespace of one's own, and chroot wants it to be 0.
    (["unshare", "--user", "--map-root-user", "--net", "--mount"], 0),
]


class Jail:
    """How this machine lets a test enter an image: without a network, the root read-only."""

    def __init__(self):
        self.problem = next((f"there is no {tool} here" for tool in TOOLS if shutil.which(tool, path=PATH) is None), None)
        self.strace = self.works("strace", "-f", "-o", "/dev/null", "true")
        for self.unshare, self.uid in [] if self.problem else NAMESPACES:
            self.user = f"--userspec={self.uid}:{self.uid} --groups=" if self.uid else ""
            if self.works(*self.unshare, "chroot", *self.user.split(), "/", "true"):
                return
        self.problem = self.problem or "no namespace without a network can be made, with root or without"

    @staticmethod
    def works(*command):
        if shutil.which(command[0], path=PATH) is None:
            return False
        return subprocess.run(command, capture_output=True, env={"PATH": PATH}, check=False).returncode == 0

    def run(self, image, *command, env=None, trace=None):
        """Runs it with these variables and no others, HOME and PATH neither; the trace, where it is asked for
        and can be had, starts with the program's own execve."""
        variables = " ".join(f"{name}={value}" for name, value in (env or {}).items())
        script = ENTER.format(env=variables, user=self.user, may_fail="" if self.uid else " || :")
        whole = [*self.unshare, "sh", "-c", script, image.root, *command]
        if trace and self.strace:
            whole = ["strace", "-f", "-y", "-s", "4096", "-o", trace, *whole]
        return subprocess.run([str(part) for part in whole], env={"PATH": PATH}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=False)


def whole_calls(lines):
    """Lines of strace with calls that another thread's interrupted in one piece."""
    begun = {}
    for line in lines:
        thread, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix("<unfinished ...>").rstrip()
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>\s?(.*)", rest)
        yield f"{thread} {begun.pop(thread, '') + resumed[1] if resumed else rest}"


def calls_of(trace, program):
    """The system calls that the program made, from its first: name, arguments, result."""
    lines = pathlib.Path(trace).read_text(encoding="utf-8", errors="replace").splitlines()
    lines = list(whole_calls(lines))
    started = [i for i, line in enumerate(lines) if f'execve("{program}"' in line]
    calls = [re.match(r"^\d+\s+(\w+)\((.*)\)\s+= (-?\d+|\?)", line) for line in lines[started[-1]:]]
    return [found.groups() for found in calls if found]
