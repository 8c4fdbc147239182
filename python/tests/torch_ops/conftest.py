"""Nothing here can be imported without torch, and so nothing is collected without it."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
