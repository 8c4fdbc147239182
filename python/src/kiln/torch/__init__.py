"""The ops as PyTorch operators, `torch.ops.kiln.<op>`: seen by torch.compile and torch.export, captured by CUDA graphs.

Importing this registers all of them, from the registry's metadata. Each has two forms:

    torch.ops.kiln.rmsnorm(x, w, 1e-6, y)                 writes y, returns nothing
    y = torch.ops.kiln.rmsnorm.functional(x, w, 1e-6)     allocates y

The second one is there where the shapes of the outputs follow from the inputs. Workspaces and outputs come from torch's caching allocator,
launches go to torch's current stream, and autocast changes nothing. There are no gradients.
"""

from __future__ import annotations

from .. import _engine, _registry
from . import _register


def register(name: str) -> None:
    """Makes an op of the shared engine's own, one of kiln.register_op, an operator too. A second time does nothing."""
    _register.register(_engine.default_engine().op(name))


for _op in _registry.ops():
    _register.register(_op)

__all__ = ["register"]
