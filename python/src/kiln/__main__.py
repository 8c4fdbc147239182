"""`python -m kiln`: the `kiln` command, where no folder of it is on PATH."""

from ._command import main

main()
