#!/usr/bin/env python3
"""Checks docs/field_reports.md against the tests: each row says which test covers it, or why none does.

    scripts/check_field_reports.py [ROOT]

The last cell of a row is one of
    `NAME` [, `NAME`...]      tests that exist and carry the row's number: a Catch2 test case whose name ends in
                              "(field report N)" or "(field reports N, M)", or a Python test whose docstring
                              says "Field report N"
                              a program of tests/stress/ whose head says "field report N"
    n/a: REASON               the row speaks of something that this project does not have
    not run: WHAT IT NEEDS    a test needs what no machine of ours has, such as a network file system
    not yet: WHAT             the feature that the row is about is still to come
A row's number in a test that the row does not name is reported too. Exits 1 when something is amiss.
"""

import ast
import pathlib
import re
import sys

ROW = re.compile(r"^\| *(\d+)\*? *\|.*\| *([^|]*?) *\|$")
NUMBERS = re.compile(r"[Ff]ield reports? (\d+(?:(?:, | and )\d+)*)")
TEST_CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
EXCUSES = ("n/a: ", "not run: ", "not yet: ")


def numbers(text):
    return {int(number) for found in NUMBERS.findall(text) for number in re.findall(r"\d+", found)}


def tests_of(root):
    """Test name -> the rows whose numbers it carries."""
    tests = {}
    for path in (root / "tests").rglob("*.cpp"):
        for pieces in TEST_CASE.findall(path.read_text(encoding="utf-8")):
            name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', pieces))
            tests[name] = numbers(name)
    for path in (root / "tests").rglob("*_test.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                tests[f"{path.stem}.{node.name}"] = numbers(ast.get_docstring(node) or "")
    for path in (root / "tests" / "stress").glob("*.cpp"):
        head = re.match(r"(?:\s*(?:#include[^\n]*|//[^\n]*)?\n)*", path.read_text(encoding="utf-8")).group(0)
        carried = numbers(" ".join(line.removeprefix("//").strip() for line in head.splitlines()))
        if carried:
            tests[str(path.relative_to(root))] = carried
    return tests


def rows_of(document):
    """Row number -> its last cell; reports rows that come twice."""
    rows, problems = {}, []
    for line in document.read_text(encoding="utf-8").splitlines():
        found = ROW.match(line)
        if found:
            number = int(found.group(1))
            if number in rows:
                problems.append(f"row {number} is there twice")
            rows[number] = found.group(2)
    return rows, problems


def check_row(number, cell, tests):
    if cell.startswith(EXCUSES):
        return [] if cell.split(": ", 1)[1] else [f"row {number}: '{cell}' gives no reason"]
    names = re.findall(r"`([^`]+)`", cell)
    if not names:
        return [f"row {number}: '{cell}' neither names a test nor says why there is none"]
    problems = []
    for name in names:
        if name not in tests:
            problems.append(f"row {number}: there is no test '{name}'")
        elif number not in tests[name]:
            problems.append(f"row {number}: the test '{name}' does not carry the row's number")
    return problems


def main(root):
    tests = tests_of(root)
    rows, problems = rows_of(root / "docs" / "field_reports.md")
    for number, cell in rows.items():
        problems += check_row(number, cell, tests)
    for name, carried in tests.items():
        for number in carried:
            if f"`{name}`" not in rows.get(number, ""):
                problems.append(f"the test '{name}' carries number {number}, and that row does not name it")
    for problem in problems:
        print(problem)
    covered = sum(not cell.startswith(EXCUSES) for cell in rows.values())
    counts = ", ".join(f"{sum(c.startswith(e) for c in rows.values())} {e.rstrip(': ')}" for e in EXCUSES)
    print(f"{len(rows)} field reports: {covered} covered by tests, {counts}")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)))
