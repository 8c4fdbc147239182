"""What a launch can be asked beside its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ._errors import ArgumentTypeError, InvalidArgumentError

DEFAULT, ON, OFF = 0, 1, 2  # As kiln.h has them.


@dataclass(frozen=True)
class LaunchOptions:
    """pdl: False: no kernel starts before its predecessor has finished. constants_ready: False: a kernel of this stream may have just
    written a constant argument (a weight, a table). serialize: True: the first kernel waits for its predecessor to finish. priority: in place
    of the stream's, as cuCtxGetStreamPriorityRange counts. memory_sync_domain: see the CUDA guide."""

    pdl: bool = True
    constants_ready: bool = True
    serialize: bool = False
    priority: int | None = None
    memory_sync_domain: Literal["default", "remote"] = "default"

    def __post_init__(self) -> None:
        for name in ("pdl", "constants_ready", "serialize"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentTypeError(f"LaunchOptions: {name} is {getattr(self, name)!r}; it must be True or False")
        if self.priority is not None and (not isinstance(self.priority, int) or not -(1 << 31) <= self.priority < 1 << 31):
            raise ArgumentTypeError(f"LaunchOptions: priority is {self.priority!r}; it must be None or an integer of 32 bits")
        if self.memory_sync_domain not in ("default", "remote"):
            raise InvalidArgumentError(
                f'LaunchOptions: memory_sync_domain is {self.memory_sync_domain!r}; it must be "default" or "remote"'
            )

    @cached_property
    def native(self) -> tuple[int, ...]:
        """As the binding takes it."""
        return (
            DEFAULT if self.pdl else OFF,
            DEFAULT if self.constants_ready else OFF,
            ON if self.serialize else DEFAULT,
            int(self.priority is not None),
            self.priority or 0,
            int(self.memory_sync_domain == "remote"),
        )


DEFAULTS = LaunchOptions().native
