"""Of what kinds the parts of an op of one's own must be: what the library, which judges all else, would not get to see as it was given."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._errors import FileError, InvalidArgumentError
from ._own_op import ACCESS, PARAM_SOURCES, TYPES, Kernel, OwnArg, OwnOp, Param, ScalarArg, TensorArg
from ._signature import DETAILS
from ._text import is_text, path_told, printable


class _Place:
    """Where in a description something stands, for messages in the library's words."""

    def __init__(self, name: str) -> None:
        self.name = name

    def part(self, what: str) -> _Place:
        return _Place(f"{self.name}, {what}")

    def refuse(self, message: str) -> None:
        raise InvalidArgumentError(f"{self.name}: {message}")

    def want(self, fits: bool, what: str, wanted: str, found: Any) -> None:
        if not fits:
            self.refuse(f"{what} must be {wanted}, found {found!r}")

    def text(self, what: str, value: Any) -> None:
        self.want(isinstance(value, str), what, "a str", value)
        self.want(is_text(value), what, "text that UTF-8 can hold, without NUL", value)

    def one_of(self, what: str, value: Any, choices: Iterable[str]) -> None:
        self.want(isinstance(value, str) and value in choices, what, " or ".join(f'"{choice}"' for choice in choices), value)

    def switches(self, part: Any, *names: str) -> None:
        for name in names:
            self.want(isinstance(getattr(part, name), bool), name, "True or False", getattr(part, name))

    def number(self, what: str, value: Any, least: int = 0) -> None:
        whole = isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31
        self.want(whole, what, f"a whole number, at least {least} and below 2**31", value)

    def expression(self, what: str, value: Any) -> None:
        fits = isinstance(value, (str, int)) and not isinstance(value, bool)
        self.want(fits, what, 'a whole number or an expression such as "4 * n"', value)
        self.text(what, str(value))

    def listed(self, what: str, values: Any, kinds: tuple[type, ...], of: str) -> list[Any]:
        fits = isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
        self.want(fits, what, f"a list of {of}", values)
        found = list(values)
        for value in found:
            if not isinstance(value, kinds):
                self.refuse(f"{what} must be a list of {of}, found {value!r} in it")
        return found


def _check_arg(op: _Place, arg: OwnArg) -> None:
    op.text("an argument's name", arg.name)
    op.want(arg.name != "", "an argument's name", "a name", arg.name)
    place = op.part(f'argument "{arg.name}"')
    if arg.name in DETAILS:
        place.refuse(f"every function takes {', '.join(DETAILS)} of its own beside its op's arguments; give it another name")
    place.text("summary", arg.summary)
    place.switches(arg, "optional")
    if isinstance(arg, ScalarArg):
        place.one_of("type", arg.type, TYPES)
        return
    place.text("dtypes", arg.dtypes)
    place.text("shape", arg.shape)
    place.one_of("access", arg.access, ACCESS)
    place.switches(arg, "constant", "row_strided", "host_memory")
    place.number("alignment", arg.alignment)


def _check_param(kernel: _Place, param: Param | str, names: Sequence[str]) -> None:
    if isinstance(param, Param):
        kernel.want(param.source in PARAM_SOURCES, "a Param", "one that its own functions made, such as kiln.Param.stride", param)
        kernel.number("a Param's axis", param.axis)
        kernel.one_of("a Param's type", param.type, TYPES)
        if param.name is not None:
            kernel.text("a Param's name", param.name)
    elif param not in names:
        known = f"the arguments are {', '.join(names)}" if names else "the op has none"
        kernel.refuse(f'a parameter is called "{param}", which is no argument; {known}; see kiln.Param for what else there is')


def _checked_kernel(op: _Place, kernel: Kernel, names: Sequence[str]) -> Kernel:
    op.text("a kernel's name", kernel.name)
    place = op.part(f'kernel "{kernel.name}"')
    place.text("source", kernel.source)
    place.text("instantiation", kernel.instantiation)
    place.switches(kernel, "cooperative")
    params = place.listed("params", kernel.params, (Param, str), "kiln.Param and of arguments' names")
    for param in params:
        _check_param(place, param, names)
    lists: dict[str, Any] = {"params": params}
    for what in ("grid", "block", "cluster"):
        extents = lists[what] = place.listed(what, getattr(kernel, what), (str, int), "whole numbers or expressions")
        place.want(len(extents) <= 3, what, "of at most three axes", extents)
        for extent in extents:
            place.expression(f"each of {what}", extent)
    if kernel.dynamic_shared_bytes is not None:
        place.expression("dynamic_shared_bytes", kernel.dynamic_shared_bytes)
    return dataclasses.replace(kernel, **lists)


def _check_sources(op: _Place, sources: Any, source_directory: str | None) -> None:
    op.want(isinstance(sources, Mapping), "sources", 'a dict such as {"axpy.cu": TEXT}', sources)
    for name, text in sources.items():
        op.text("a source's name", name)
        place = op.part(f'source "{name}"')
        if text is not None:
            place.text("its text", text)
        elif source_directory is None:
            place.refuse("without a text it is a file of source_directory, which was not passed: pass that, or the text")
        elif not os.path.isdir(path_told(source_directory)):
            raise FileError(f"{place.name}: it is to be read from source_directory, and {path_told(source_directory)!r} is no folder")


def checked(own: OwnOp) -> OwnOp:
    """The same, with lists in place of what can be gone through once. InvalidArgumentError says what is of the wrong kind, and where."""
    if not isinstance(own.name, str):
        raise InvalidArgumentError(f"register_op: an op's name must be a str, found {own.name!r}")
    place = _Place(f'op "{printable(own.name)}"')
    place.text("its name", own.name)
    place.text("summary", own.summary)
    place.text("family", own.family)
    args = place.listed("args", own.args, (TensorArg, ScalarArg), "kiln.TensorArg and kiln.ScalarArg")
    for arg in args:
        _check_arg(place, arg)
    names = [arg.name for arg in args]
    for name in names:
        if names.count(name) > 1:
            place.refuse(f'{names.count(name)} arguments are called "{name}"; give each a name of its own')
    given = [own.kernels] if isinstance(own.kernels, Kernel) else own.kernels
    kernels = place.listed("kernels", given, (Kernel,), "kiln.Kernel")
    options = place.listed("options", own.options, (str,), "str")
    for option in options:
        place.text("each of options", option)
    _check_sources(place, own.sources, own.source_directory)
    if own.workspace_bytes is not None:
        place.expression("workspace_bytes", own.workspace_bytes)
    place.number("min_compute_capability", own.min_compute_capability)
    place.switches(own, "pdl")
    return dataclasses.replace(own, args=args, kernels=[_checked_kernel(place, kernel, names) for kernel in kernels], options=options)
