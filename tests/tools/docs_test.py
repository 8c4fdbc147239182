"""What the documents claim: links lead somewhere, and the README's code and commands work."""

import os
import re
import subprocess
import unittest

from support import REPOSITORY, ScratchTest

DOCUMENTS = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), *REPOSITORY.glob("bench/*.md")]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")  # No scheme: a file of this repository.
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


class Documents(ScratchTest):
    def test_links_lead_to_files_of_the_repository(self):
        for document in DOCUMENTS:
            for target in LINK.findall(document.read_text(encoding="utf-8")):
                self.assertTrue((document.parent / target).exists(), f"{document.name}: {target}")

    def test_the_readme_code_compiles_against_the_public_headers_alone(self):
        (code,) = re.findall(r"```cpp\n(.*?)```", README, re.DOTALL)
        command = [os.environ["CXX"], "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-x", "c++", "-"]
        subprocess.run([*command, "-I", REPOSITORY / "include"], input=code, text=True, check=True)

    def test_the_architecture_states_the_on_disk_grammar_of_the_headers(self):
        subprocess.run([REPOSITORY / "scripts/on_disk_grammar.py", "check"], check=True)

    def test_every_field_report_names_its_tests_or_says_why_there_are_none(self):
        subprocess.run([REPOSITORY / "scripts/check_field_reports.py"], check=True, stdout=subprocess.DEVNULL)

    def test_the_scripts_that_documents_name_exist_and_can_be_run(self):
        for document in DOCUMENTS:
            for script in re.findall(r"\bscripts/\w+\.(?:sh|py)\b", document.read_text(encoding="utf-8")):
                sourced = script == "scripts/environment.sh"
                self.assertTrue(os.access(REPOSITORY / script, os.R_OK if sourced else os.X_OK), f"{document.name}: {script}")


if __name__ == "__main__":
    unittest.main()
