#!/usr/bin/env python3
"""The record of the last GPU test run, docs/gpu_record.json, and whether the tree still is what was run.

    scripts/gpu_record.py digests          print the digest of every row: one per op, one for the launch path
    scripts/gpu_record.py write RESULTS... make the record from the results of a GPU session, or of its parts (see gpu_session.sh)
    scripts/gpu_record.py pending ROW REASON   mark a row as not yet run on a GPU, with the reason
    scripts/gpu_record.py check            exit 1 when a row is missing or its digest is not the tree's

An op's digest covers its description, its template and every file that either of them includes. The launch path's covers the driver layer and the sources of runtime/ that launch.
So device code cannot change without its GPU tests having been run on it, while a change to one op
leaves the rows of the others alone.
"""

import argparse
import hashlib
import json
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
OP_NAME = re.compile(r'\bop\.name = "([A-Za-z0-9_]+)"')
TEMPLATE_NAME = re.compile(r'"([A-Za-z0-9_/]+\.cuh)"')

# What runtime/ does besides launching; everything else directly in it is launch path.
NOT_LAUNCHING = {"prebuild", "doctor", "manifest", "manifest_lock", "manifest_parse", "manifest_resolve", "nvtx", "recorder", "trace"}


def closure(root, start):
    """`start` and everything it includes with quotes, transitively; names relative to `root`."""
    found, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name in found or not (root / name).is_file():
            continue
        found.add(name)
        todo += INCLUDE.findall((root / name).read_text(encoding="utf-8"))
    return found


def digest(tree, files):
    """SHA-256 over names and contents, each with its length, so that no two sets look alike."""
    total = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), (tree / name).read_bytes()):
            total.update(len(part).to_bytes(8, "little"))
            total.update(part)
    return total.hexdigest()


def op_files(tree, description):
    """Everything that op's device code is made from, relative to the tree."""
    text = description.read_text(encoding="utf-8")
    templates = TEMPLATE_NAME.findall(text)
    if not templates:
        raise SystemExit(f"{description}: names no template (\"...cuh\"), so its digest would cover nothing")
    files = closure(tree, str(description.relative_to(tree)))
    for template in templates:
        if not (tree / "kernel_templates" / template).is_file():
            raise SystemExit(f"{description}: names {template}, which is not in kernel_templates/")
        files |= {f"kernel_templates/{name}" for name in closure(tree / "kernel_templates", template)}
    return files


def op_name(description):
    names = OP_NAME.findall(description.read_text(encoding="utf-8"))
    if len(names) != 1:
        raise SystemExit(f'{description}: sets op.name {len(names)} times, expected once')
    return names[0]


def launch_files(tree):
    runtime = tree / "runtime"
    files = {path for path in runtime.iterdir() if path.suffix in {".cpp", ".hpp"} and path.stem not in NOT_LAUNCHING}
    files |= {path for path in (runtime / "driver").rglob("*") if path.is_file()}
    return {str(path.relative_to(tree)) for path in files}


def digests(tree):
    descriptions = sorted((tree / "trait_registry/ops").glob("*.cpp"))
    rows = {op_name(path): digest(tree, op_files(tree, path)) for path in descriptions}
    rows["launch path"] = digest(tree, launch_files(tree))
    return rows


def load(record_path):
    if not record_path.is_file():
        return {"rows": {}}
    return json.loads(record_path.read_text(encoding="utf-8"))


def store(record_path, record):
    record_path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def write(tree, record_path, results_paths):
    """A row counts only if the session ran this very tree: the session carries the digests it ran."""
    parts = [json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in results_paths]
    passed, failed = (sum(part[key] for part in parts) for key in ("tests_passed", "tests_failed"))
    if failed or not passed:
        raise SystemExit(f"{passed} GPU tests passed, {failed} failed: no record is made of that")
    current = digests(tree)
    stale = [row for row, value in current.items() if any(part["digests"].get(row) != value for part in parts)]
    if stale:
        raise SystemExit(f"the tree changed since the session ran: {', '.join(stale)}; run it again")
    devices = {(part["device"], part["driver"]) for part in parts}
    if len(devices) != 1:
        raise SystemExit(f"the parts ran on different machines: {'; '.join(' with driver '.join(pair) for pair in sorted(devices))}")
    sanitizers = [line for part in parts for line in part["sanitizers"]]
    if not sanitizers:
        raise SystemExit("no memory checker ran: give the results of gpu_session.sh --checkers too")
    run = {key: parts[0][key] for key in ("device", "driver")}
    run |= {"date": max(part["date"] for part in parts), "tests_passed": passed, "sanitizers": sanitizers}
    store(record_path, {"run": run, "rows": {row: {"digest": value, "status": "passed"} for row, value in current.items()}})
    return 0


def mark_pending(tree, record_path, row, reason):
    current = digests(tree)
    if row not in current:
        raise SystemExit(f"no row '{row}'; there are: {', '.join(current)}")
    record = load(record_path)
    record["rows"][row] = {"digest": current[row], "status": "pending", "reason": reason}
    store(record_path, record)
    return 0


def check(tree, record_path):
    """A pending row passes too, with a warning on the last lines, as long as its digest is the tree's."""
    rows = load(record_path)["rows"]
    failures, warnings = [], []
    current = digests(tree)
    for row, value in current.items():
        entry = rows.get(row)
        if entry is None:
            failures.append(f"{row}: no GPU run is recorded")
        elif entry["digest"] != value:
            failures.append(f"{row}: changed since its GPU tests were run")
        elif entry["status"] == "pending":
            warnings.append(f"{row}: GPU tests pending: {entry['reason']}")
    failures += [f"{row}: recorded, but no longer exists" for row in rows if row not in current]
    for line in failures:
        print(f"gpu record: {line}; run scripts/gpu_session.sh on a GPU, then scripts/gpu_record.py write")
    for line in warnings:
        print(f"WARNING: gpu record: {line}")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="The record of the last GPU test run.")
    parser.add_argument("--tree", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("digests")
    commands.add_parser("check")
    commands.add_parser("write").add_argument("results", nargs="+")
    pending = commands.add_parser("pending")
    pending.add_argument("row")
    pending.add_argument("reason")
    args = parser.parse_args()
    record_path = args.tree / "docs/gpu_record.json"
    if args.command == "digests":
        print(json.dumps(digests(args.tree), indent=2))
        return 0
    if args.command == "write":
        return write(args.tree, record_path, args.results)
    if args.command == "pending":
        return mark_pending(args.tree, record_path, args.row, args.reason)
    return check(args.tree, record_path)


if __name__ == "__main__":
    sys.exit(main())
