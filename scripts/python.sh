#!/usr/bin/env bash
# Builds the Python wheel, installs it into an empty virtual environment, and runs the tests that need neither a GPU nor torch.
#
#   scripts/python.sh [PYTEST_ARGUMENT...]
#
# The wheel stays in build/wheel. After the release preset, a compiler cache makes its build short; the tests want that preset's
# fake driver and build it when it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh
wheels=$PWD/build/wheel tools=$PWD/build/python-tools venv=$PWD/build/python-venv

[ -e build/release/CMakeCache.txt ] || cmake --preset release
cmake --build --preset release --target kiln_fake_driver

# What builds it has a fixed place, where pip's isolation would have a new one each time and the compiler cache would miss.
[ -e "$tools/bin/pip" ] || python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check "scikit-build-core>=1.1" "apache-tvm-ffi>=0.1.9,<0.2"
rm -rf "$wheels"
"$tools/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$wheels" ./python

python3 -m venv --clear "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check "$wheels"/kiln-*.whl pytest

# From a folder without the sources, so that what is tested is what was installed.
export KILN_FAKE_DRIVER=$PWD/build/release/tests/fake_driver/fake-libcuda.so PYTHONDONTWRITEBYTECODE=1
cd build
"$venv/bin/python" -m pytest -q -p no:cacheprovider ../python/tests "$@"
