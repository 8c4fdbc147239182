"""scripts/check_needed.sh."""

import os
import subprocess
import unittest

from support import REPOSITORY, ScratchTest


class CheckNeeded(ScratchTest):
    def check(self, language, *flags):
        program = self.scratch / "program"
        compiler = os.environ["CXX" if language == "c++" else "CC"]
        subprocess.run(
            [compiler, "-x", language, "-", "-o", program, *flags], input="int main() { return 0; }", text=True, check=True
        )
        command = [REPOSITORY / "scripts/check_needed.sh", program]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_a_program_that_needs_glibc_alone_passes(self):
        result = self.check("c")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_program_that_needs_libstdcxx_is_refused_by_name(self):
        result = self.check("c++", "-Wl,--no-as-needed", "-lstdc++")
        self.assertEqual(result.returncode, 1)
        self.assertIn("libstdc++.so.6", result.stderr)


if __name__ == "__main__":
    unittest.main()
