from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine

import kiln

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def _fake_driver() -> Path | None:
    named = os.environ.get("KILN_FAKE_DRIVER")
    if named:
        return Path(named)
    built = sorted(REPOSITORY.glob("build/*/tests/fake_driver/fake-libcuda.so"), key=lambda path: path.stat().st_mtime)
    return built[-1] if built else None


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that a kernel is compiled once."""
    return tmp_path_factory.mktemp("kiln") / "cache"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    driver = _fake_driver()
    if driver is None:
        pytest.skip("no fake driver: build the target kiln_fake_driver, or name one in KILN_FAKE_DRIVER")
    made = Machine(driver, tmp_path)
    made.context = made.enter()
    yield made
    made.set_current(None)


@pytest.fixture
def engine(machine: Machine, cache: Path) -> Iterator[kiln.Engine]:
    """An engine of the machine, which the package's functions use."""
    with kiln.Engine(driver=machine.driver, cache_root=cache) as made:
        kiln.set_default_engine(made)
        yield made
        kiln.set_default_engine(None)
