"""Nothing here can be imported without torch, and so nothing is collected without it."""

import importlib.util
import os
import shutil
import tempfile

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]

# One folder for what torch's compiler makes in a run: its workers share it, and no run sees what another's sources gave.
COMPILED = "TORCHINDUCTOR_CACHE_DIR"
made = None

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before torch is loaded: workers side by side, each with a thread for each core, mostly wait for each other.
    for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
        os.environ.setdefault(threads, "1")


# No search for what this machine's CPU can do, each step of which imports torch once more: the compiler's own code need not be quick here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")


def pytest_configure():
    global made
    if COMPILED not in os.environ:
        made = os.environ[COMPILED] = tempfile.mkdtemp(prefix="kiln-compiled-")


def pytest_unconfigure():
    if made is not None:
        del os.environ[COMPILED]
        shutil.rmtree(made, ignore_errors=True)
