"""Has torch's compiler leave the Python of this package alone: a call of it in traced code breaks the graph and is then made as ever.

torch is imported for nothing here. Its compiler is loaded by the first torch.compile, perhaps long after this package, and is told when it is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

RULES = "torch._dynamo.trace_rules"  # Which files are not followed.


def _tell(rules: ModuleType) -> None:
    # A torch that wants to be told in another way is imported nonetheless.
    with contextlib.suppress(Exception):
        rules.add(__package__)


class _Awaiting:
    """The first finder that an import asks. It finds that one module, once, as it would be found without this."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != RULES:
            return None
        with contextlib.suppress(ValueError):  # Another thread was quicker.
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                _tell(module)

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def leave_alone() -> None:
    loaded = sys.modules.get(RULES)
    if loaded is None:
        sys.meta_path.insert(0, _Awaiting())
    else:
        _tell(loaded)
