"""kiln bench without a GPU: what it refuses, and that it leaves no harm. What it prints of a device
is tested in tests/tools/bench."""

import pathlib
import unittest

from support import REPOSITORY, KilnTest

PEERS = REPOSITORY / "docs/peer_h200.md"


class Bench(KilnTest):
    def test_without_a_driver_it_fails_in_a_plain_sentence_and_keeps_what_was_there(self):
        if pathlib.Path("/dev/nvidiactl").exists():
            self.skipTest("this machine has a GPU")
        plot = self.scratch / "plot.svg"
        plot.write_text("an older plot", encoding="utf-8")
        result = self.kiln("bench", "--peers", PEERS, "--plot", plot, code=1)
        self.assert_plain_complaint(result)
        self.assertIn("libcuda.so.1", result.stderr)
        self.assertEqual(plot.read_text(encoding="utf-8"), "an older plot")

    def test_a_glob_that_matches_no_op_is_a_failure(self):
        result = self.kiln("bench", "*gemm*,nosuch*", code=1)
        self.assert_plain_complaint(result)
        self.assertIn("nosuch*", result.stderr)

    def test_files_that_cannot_be_read_or_written_fail_before_anything_is_measured(self):
        words = self.scratch / "words.md"
        words.write_text("no table\n", encoding="utf-8")
        nowhere = self.scratch / "nowhere"
        for options in (["--peers", nowhere], ["--peers", words], ["--plot", nowhere / "x.svg"], ["--save", nowhere / "x"]):
            with self.subTest(options=options):
                result = self.kiln("bench", *options, code=1)
                self.assert_plain_complaint(result)
                self.assertIn(str(options[1]), result.stderr)

    def test_wrong_usage_exits_2(self):
        for options in (["--bandwidth", "0"], ["--bandwidth", "fast"], ["--pdl", "maybe"], ["--peers"]):
            with self.subTest(options=options):
                self.assert_plain_complaint(self.kiln("bench", *options, code=2))


if __name__ == "__main__":
    unittest.main()
