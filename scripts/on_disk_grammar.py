#!/usr/bin/env python3
"""Keeps ARCHITECTURE.md's copy of the on-disk grammar equal to the headers that state it.

    scripts/on_disk_grammar.py check     exit 1 when the copy is not what the headers say
    scripts/on_disk_grammar.py write     make it so
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ["key.hpp", "entry.hpp", "lock_table.hpp", "pack_format.hpp"]
BEGIN, END = "<!-- on-disk grammar: begin -->\n", "<!-- on-disk grammar: end -->\n"


def grammar(header):
    """The lines between the header's markers, without their comment signs."""
    text = (ROOT / "cache" / header).read_text(encoding="utf-8")
    block = text.split("[on-disk.begin]\n", 1)[1].split("/// [on-disk.end]", 1)[0]
    lines = [line.removeprefix("///").removeprefix(" ") for line in block.splitlines()]
    return "\n".join(line.removeprefix("  ") for line in lines).rstrip() + "\n"


def main(command):
    document = ROOT / "ARCHITECTURE.md"
    text = document.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    copy, after = rest.split(END, 1)
    current = "".join(f"`cache/{header}`:\n\n```\n{grammar(header)}```\n\n" for header in HEADERS).rstrip("\n") + "\n"
    if command == "write":
        document.write_text(before + BEGIN + current + END + after, encoding="utf-8")
    elif command != "check":
        print(__doc__, file=sys.stderr)
        return 2
    elif copy != current:
        print("ARCHITECTURE.md's on-disk grammar is not that of cache/*.hpp; run scripts/on_disk_grammar.py write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
