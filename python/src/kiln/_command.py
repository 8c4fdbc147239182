"""The `kiln` command of a wheel: the program that lies in it."""

from __future__ import annotations

import os
import sys

from ._native import LIBRARIES


def main() -> None:
    program = str(LIBRARIES / "kiln")
    os.execv(program, [program, *sys.argv[1:]])
