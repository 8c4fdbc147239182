#!/usr/bin/env bash
# Runs python/tests/torch_ops on the wheel that scripts/python.sh has built: what PyTorch makes of the operators, and the references in torch
# against those in C++. Needs no GPU; on one, every op runs too.
#
#   [PRESET=dev] scripts/python_torch.sh PYTHON [PYTEST_ARGUMENT...]      PYTHON: with torch, pytest and pip
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: scripts/python_torch.sh PYTHON [PYTEST_ARGUMENT...]} preset=${PRESET:-release}
. scripts/environment.sh
wheels=(build/wheel/kiln-*.whl) site=$PWD/build/python-torch
[ -e "${wheels[0]}" ] || { echo "python_torch: no wheel in build/wheel; scripts/python.sh makes one" >&2; exit 1; }

[ -e "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build --preset "$preset" --target kiln_reference_cases

rm -rf "$site"
"$python" -m pip install -q --disable-pip-version-check --no-compile --target "$site" "${wheels[@]}"
export PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1
export KILN_REFERENCE_CASES=$PWD/build/$preset/tests/reference_cases/libkiln_reference_cases.so
cd build
"$python" -m pytest -q -p no:cacheprovider ../python/tests/torch_ops "${@:2}"
