"""What a wheel puts beside the package."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import kiln
from kiln import _native


def test_the_kiln_command_is_installed():
    command = Path(sysconfig.get_path("scripts")) / "kiln"
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"kiln {kiln.__version__}"


def test_the_command_is_the_package_run_as_a_module_too(tmp_path):
    command = [sys.executable, "-m", "kiln"]
    assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.strip() == f"kiln {kiln.__version__}"
    wrong = subprocess.run([*command, "no-such-command"], capture_output=True, text=True)
    assert wrong.returncode == 2


def test_the_library_the_worker_and_the_command_are_one_build():
    names = {path.name for path in _native.LIBRARIES.iterdir()}
    assert {"kiln", "kiln-compile-worker", "libkiln_python.so"} <= names
    assert any(name.startswith("libkiln.so.") for name in names)
    major, minor, patch = map(int, kiln.__version__.split("."))
    assert _native.call("library_version") == 10000 * major + 100 * minor + patch


def test_the_worker_is_found_beside_the_library(tmp_path):
    result = subprocess.run(
        [_native.LIBRARIES / "kiln", "doctor"], capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}, timeout=120
    )
    assert str(_native.LIBRARIES / "kiln-compile-worker") in result.stdout


def test_one_wheel_serves_every_python():
    """Nothing in it is linked with Python."""
    for path in _native.LIBRARIES.iterdir():
        if path.read_bytes()[:4] == b"\x7fELF":
            needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
            assert "libpython" not in needed
    assert sys.version_info >= (3, 10)
