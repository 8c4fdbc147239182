#!/usr/bin/env python3
"""Checks the layer rules of ARCHITECTURE.md: what each folder may include, and which words it may use.

    scripts/check_layers.py [ROOT]

Prints one line per violation and exits 1 if there is any.
"""

import pathlib
import re
import sys

LAYERS = ["include", "api", "base", "cache", "trait_registry", "reference", "runtime", "c_api", "tools", "tests", "bench", "examples", "python"]

# Folder -> folders whose internal headers ("folder/x.hpp") it may include. The longest prefix rules.
MAY_INCLUDE = {
    "include": set(),
    "api": set(),
    "base": {"base"},
    "cache": {"base", "cache"},
    "trait_registry": {"base", "trait_registry"},
    "reference": {"reference"},
    "runtime": {"base", "cache", "trait_registry", "runtime"},
    "c_api": {"c_api"},
    "tools": {"base", "cache", "trait_registry", "reference", "runtime", "tools"},
    "examples": {"examples"},
    "python": {"python"},
    "bench": {"base", "cache", "trait_registry", "reference", "runtime", "tests", "bench"},
    "tests": {"base", "cache", "trait_registry", "reference", "runtime", "c_api", "tools", "tests"},
}

# The door: include/kiln. Every other <kiln/x.hpp> is a header of api/.
DOOR = re.compile(r"kiln/(kiln\.h|kiln\.hpp|version\.h|cpp/.*)")
# Folders that stand before the door and see nothing else; who stands behind it sees its C side only.
BEFORE_THE_DOOR = {"include", "examples", "python"}
BOTH_SIDES = {"tests", "bench"}

# Folder -> headers <kiln/x.hpp> it may include; absent means all of them.
MAY_INCLUDE_PUBLIC = {
    "base": {"error", "log", "version"},
    "cache": {"error", "log", "version"},
    "trait_registry": {"error", "log", "version", "op", "target", "tensor", "engine"},
    "reference": set(),
}

# Third-party or toolkit header prefix -> the only folders that may include it.
ONLY_IN = {
    "cuda": {"runtime", "tools", "tests", "bench"},
    "nvrtc": {"runtime", "tests", "bench"},
    "tvm/": {"python"},
    "nvtx3/": {"runtime", "tests"},
    "CLI/": {"tools", "bench", "tests"},
    "catch2/": {"tests"},
    "sodium": {"cache"},
    "zstd": {"cache"},
    "spdlog/": {"base", "tests"},
    "dlpack/": {"include", "api", "trait_registry", "tests", "bench"},
}

# Folder -> words that must not stand in its code (comments and strings are not code).
FORBIDDEN_WORDS = {"cache": re.compile(r"cubin|nvrtc|cuda|ptx", re.IGNORECASE)}

# The public door shows no third-party type but DLTensor, and its C side stands on C's own headers.
PUBLIC_THIRD_PARTY = {"dlpack/dlpack.h", "stddef.h", "stdint.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CODE_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
RAW_STRING = re.compile(r'R"([^()\\\s]*)\(.*?\)\1"', re.DOTALL)
HOST_SUFFIXES = {".hpp", ".cpp", ".h", ".c"}


def check_host_include(layer, quote, name):
    """What is wrong with this include in a host file of `layer`, or None."""
    if quote == '"':
        top = name.split("/")[0]
        if "/" not in name or top not in LAYERS:
            return f'"{name}" does not start at the repository root'
        if top not in MAY_INCLUDE[layer]:
            return f"{layer}/ may not include {top}/"
        return None
    if name.startswith("kiln/"):
        door = DOOR.fullmatch(name) is not None
        cxx_door = door and not name.endswith(".h")
        if (layer in BEFORE_THE_DOOR and not door) or (cxx_door and layer not in BEFORE_THE_DOOR | BOTH_SIDES):
            return f"{layer}/ may not know <{name}>"
        header = pathlib.PurePath(name).stem
        if header not in MAY_INCLUDE_PUBLIC.get(layer, {header}):
            return f"{layer}/ may not know <{name}>"
        return None
    for prefix, folders in ONLY_IN.items():
        if name.startswith(prefix) and layer not in folders:
            return f"{layer}/ may not include <{name}>"
    is_standard = re.fullmatch(r"[a-z_0-9]+", name) is not None
    if layer in {"include", "api"} and not is_standard and name not in PUBLIC_THIRD_PARTY:
        return f"a public header may not include <{name}>"
    if layer == "reference" and not is_standard:
        return f"reference/ uses the standard library only, not <{name}>"
    return None


def blank(pattern, text):
    """Blanks matches out rather than cutting them, so that line numbers stay right."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def check_host_file(path, relative):
    layer = relative.parts[0]
    text = blank(RAW_STRING, path.read_text(encoding="utf-8"))  # Often CUDA code of its own.
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        problem = match and check_host_include(layer, *match.groups())
        if problem:
            yield f"{relative}:{number}: {problem}"
    if layer in FORBIDDEN_WORDS:
        for number, line in enumerate(blank(CODE_NOISE, text).splitlines(), 1):
            word = FORBIDDEN_WORDS[layer].search(line)
            if word:
                yield f"{relative}:{number}: the word '{word.group()}' does not belong in {layer}/"


def check_device_file(path, relative, templates):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match and match.group(1) == "<":
            yield f"{relative}:{number}: a kernel template includes no host or toolkit header, so not <{match.group(2)}>"
        elif match and not (templates / match.group(2)).is_file():
            yield f'{relative}:{number}: "{match.group(2)}" is no file of kernel_templates/'


def violations(root):
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix in HOST_SUFFIXES and path.is_file():
                yield from check_host_file(path, path.relative_to(root))
    templates = root / "kernel_templates"
    for path in sorted(templates.rglob("*")):
        if path.is_file():
            yield from check_device_file(path, path.relative_to(root), templates)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = list(violations(root.resolve()))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
