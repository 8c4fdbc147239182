"""What a process that finds all its kernels in a cache asks of the kernel: no lock, no write, one open each."""

import os
import re
import shutil
import subprocess
import unittest

from support import KilnTest

COUNT = 5

# Everything that opens, locks or changes a file. A name that this machine lacks is left out with "?".
CALLS = ("open,openat,openat2,creat,flock,fcntl,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,mkdir,"
         "mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,"
         "chown,fchown,fchownat,utimensat,mknod,mknodat,fallocate")
CHANGING = re.compile(r"^(creat|flock|ftruncate|truncate|mkdir|unlink|rename|link|symlink|f?chmod|f?chown|utimensat"
                      r"|mknod|fallocate|pwrite)")


def strace_problem():
    """Why strace cannot be used here; None when it can."""
    if shutil.which("strace") is None:
        return "there is no strace here; scripts/setup.sh installs it"
    probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else "strace does not work here: " + probe.stderr.strip()


PROBLEM = strace_problem()


@unittest.skipIf(PROBLEM, PROBLEM)
class Strace(KilnTest):
    def run_kernels(self, *roots, traced=False):
        """The program's output and, when traced, its calls as lists of name, arguments and result."""
        trace = self.scratch / "trace"
        command = [os.environ["KILN_WARM_KERNELS"], COUNT, *roots]
        if traced:
            calls = ",".join("?" + call for call in CALLS.split(","))
            command = ["strace", "-f", "-y", "-s", "4096", "-o", trace, "-e", "trace=" + calls, *command]
        # The leak checker of a sanitizer build traces its own process, which is traced already.
        environment = self.environment(ASAN_OPTIONS="detect_leaks=0")
        result = subprocess.run([str(part) for part in command], env=environment, cwd=self.scratch,
                                capture_output=True, text=True, timeout=600)
        if "no NVRTC" in result.stderr or "libnvrtc" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        if not traced:
            return result.stdout, []
        pattern = re.compile(r"^\d+\s+(\w+)\((.*)\)\s+= (-?\d+)")
        return result.stdout, [m.groups() for m in map(pattern.match, trace.read_text().splitlines()) if m]

    def check_warm(self, calls, root):
        below = [(name, rest, int(code)) for name, rest, code in calls if f"{root}" in rest]
        self.assertTrue(below)
        for name, rest, _ in calls:
            self.assertNotEqual(name, "flock", rest)
            self.assertNotRegex(rest, r"F_(OFD_)?SETLK", rest)
        for name, rest, _ in below:
            self.assertNotRegex(name, CHANGING, rest)
            self.assertNotRegex(rest, r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", rest)
        for name, rest, _ in calls:  # Nor is anything but the terminal written, wherever it lies.
            if name.startswith("open"):
                self.assertNotRegex(rest, r"O_(CREAT|TRUNC|APPEND)", rest)
        opened = [rest for name, rest, code in below if name.startswith("open") and code >= 0]
        # O_PATH opens nothing: it names a folder for the questions about the root.
        read = [rest for rest in opened if "O_PATH" not in rest]
        files = [rest for rest in read if ".cubin" in rest]
        self.assertEqual(len(files), COUNT, "\n".join(files))
        self.assertEqual(len(set(files)), COUNT)
        return [rest for rest in read if rest not in files]

    def test_a_warm_hit_in_the_root_takes_no_lock_writes_nothing_and_opens_one_file_per_kernel(self):
        """Field report 21."""
        output, _ = self.run_kernels(self.cache)
        self.assertEqual(output, f"compiled {COUNT}\n")
        output, calls = self.run_kernels(self.cache, traced=True)
        self.assertEqual(output, "compiled 0\n")
        self.assertEqual(self.check_warm(calls, self.cache), [])

    def test_so_does_one_in_a_read_only_layer_whose_folder_is_listed_once(self):
        """Field report 27."""
        self.run_kernels(self.cache)
        empty = self.scratch / "root"
        output, calls = self.run_kernels(empty, self.cache, traced=True)
        self.assertEqual(output, "compiled 0\n")
        listings = self.check_warm(calls, self.cache)
        self.assertEqual(len(listings), 1, "\n".join(listings))
        self.assertIn("O_DIRECTORY", listings[0])
        self.assertFalse(empty.exists())

    def test_a_cold_start_does_take_locks_and_write(self):
        """The test of the test: its eyes are open."""
        output, calls = self.run_kernels(self.cache, traced=True)
        self.assertEqual(output, f"compiled {COUNT}\n")
        names = [name for name, _, _ in calls]
        self.assertIn("flock", names)
        self.assertTrue(any(name.startswith("rename") for name in names))

    def test_nothing_is_written_outside_of_the_root_that_was_named(self):
        """Field report 30."""
        _, calls = self.run_kernels(self.cache, traced=True)
        written = [rest for name, rest, code in calls if name.startswith("open") and int(code) >= 0
                   and re.search(r"O_(WRONLY|RDWR|CREAT)", rest) and not re.search(r'"/(dev|proc)/', rest)]
        self.assertTrue(written)
        self.assertEqual([rest for rest in written if f"{self.cache}/" not in rest], [])

    def test_kernels_compiled_side_by_side_share_no_file_that_is_written(self):
        """Beside the lock that two of them may share, each has its own. Field report 10."""
        _, calls = self.run_kernels(self.cache, traced=True)
        written = [re.search(r'"([^"]*)"', rest).group(1) for name, rest, code in calls
                   if name.startswith("open") and int(code) >= 0 and re.search(r"O_(WRONLY|RDWR|CREAT)", rest)
                   and str(self.scratch) in rest]
        temporary = [path for path in written if "/v1/tmp/" in path]
        self.assertEqual(len(temporary), COUNT)
        self.assertEqual(len(set(temporary)), COUNT)
        self.assertEqual([path for path in written
                          if "/v1/tmp/" not in path and "/v1/locks/" not in path and path != "/dev/null"], [])


if __name__ == "__main__":
    unittest.main()
