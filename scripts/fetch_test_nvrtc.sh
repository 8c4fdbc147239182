#!/usr/bin/env bash
# Fetches the oldest and the newest NVRTC that Kiln is tested with, from NVIDIA's Python wheels, into
# build/nvrtc-wheels/<version>. They serve the compile tests alone. What is there is not fetched again.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(nvidia-cuda-nvrtc-cu12==12.3.107 nvidia-cuda-nvrtc==13.5.37)
target=build/nvrtc-wheels

# A Python that has pip: the machine's own, or one in the build tree.
pip() {
  if python3 -m pip --version >/dev/null 2>&1; then
    python3 -m pip "$@"
    return
  fi
  if [ ! -x build/wheels-venv/bin/pip ]; then
    python3 -m venv build/wheels-venv || {
      echo "fetch_test_nvrtc: Python has neither pip nor venv; install python3-venv" >&2
      return 1
    }
  fi
  build/wheels-venv/bin/pip "$@"
}

for wheel in "${wheels[@]}"; do
  version=${wheel##*==}
  if [ -d "$target/$version" ]; then
    continue
  fi
  echo "fetching $wheel into $target/$version"
  mkdir -p "$target"
  staging=$(mktemp -d "$target/.staging-XXXXXX")
  trap 'rm -rf "$staging"' EXIT
  pip download --quiet --disable-pip-version-check --no-deps --dest "$staging/wheel" "$wheel"
  python3 -m zipfile -e "$staging"/wheel/*.whl "$staging/unpacked"
  # nvidia/cu13/lib or nvidia/cuda_nvrtc/lib, by the wheel's age.
  mv "$staging"/unpacked/nvidia/*/lib "$target/$version"
  rm -rf "$staging"
  trap - EXIT
done
