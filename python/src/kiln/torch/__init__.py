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


def register(name: str, engine: _engine.Engine | None = None) -> None:
    """Makes an op of an engine's own, one of register_op, an operator too. It launches that engine's kernel, whichever is the default engine
    later. A second time does nothing; another engine's op of the name is refused while the first engine is open. engine: the default one."""
    owner = _engine.default_engine() if engine is None else engine
    op = owner.op(name)
    _register.register(op, None if op in _registry.ops() else owner)


for _op in _registry.ops():
    _register.register(_op)

__all__ = ["register"]
