"""Extents that are worked out: expressions over an op's symbols, as kiln.h has them. Those of built-in ops know ceil128(...) too.

Symbols may be anything that counts: whole numbers, or the symbolic ones that a tracer has. Their names may be Python's own words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+)( *\()?")
_ROUND_UP = re.compile(r"f_ceil([1-9][0-9]*)")


def _whole(*values: Any) -> bool:
    """Whether these are numbers; a tracer's are not, and are never negative."""
    return all(isinstance(value, int) for value in values)


def _quotient(a: Any, b: Any) -> Any:
    """Towards zero."""
    if not _whole(a, b):
        return a // b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: Any, b: Any) -> Any:
    return a - b * _quotient(a, b) if _whole(a, b) else a % b


def ceil_div(a: Any, b: Any) -> Any:
    return -(-a // b) if _whole(a, b) else (a + b - 1) // b


def _round_up(step: int) -> Any:
    return lambda value: ceil_div(value, step) * step


# Names that no symbol and no function of an expression has in its translation.
_OPERATORS = {"quotient": _quotient, "remainder": _remainder}
_FUNCTIONS = {"f_ceil_div": ceil_div, "f_min": min, "f_max": max}


class _Division(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = {ast.Div: "quotient", ast.Mod: "remainder"}.get(type(node.op))
        if name is None:
            return node
        return ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])


def _translated(match: re.Match[str]) -> str:
    word, called = match.groups()
    if word[0].isdigit():
        return f"{int(word)}{called or ''}"
    return f"f_{word}(" if called else f"s_{word}"


@lru_cache(maxsize=1024)
def symbols_of(expression: str) -> frozenset[str]:
    """The symbols that an expression needs."""
    return frozenset(word for word, called in _WORD.findall(expression) if not called and not word[0].isdigit())


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> tuple[CodeType, dict[str, Any]]:
    tree = ast.parse(_WORD.sub(_translated, expression).strip(), mode="eval")
    known: dict[str, Any] = {"__builtins__": {}, **_OPERATORS, **_FUNCTIONS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and (match := _ROUND_UP.fullmatch(node.id)):
            known[node.id] = _round_up(int(match.group(1)))
    return compile(ast.fix_missing_locations(_Division().visit(tree)), f"<extent {expression}>", "eval"), known


def where(expression: str, symbols: Mapping[str, Any]) -> str:
    """What a message about an expression's value ends with: ", where n is 8"."""
    values = [f"{name} is {symbols[name]}" for name in sorted(symbols_of(expression))]
    return f", where {' and '.join(values)}" if values else ""


def evaluate(expression: str, symbols: Mapping[str, Any]) -> Any:
    """The value of an extent such as "(n-1)*h" or "ceil128(m)*ceil4(k/32)". ValueError where it has none."""
    code, known = _compiled(expression)
    try:
        return eval(code, known, {f"s_{name}": value for name, value in symbols.items()})  # Without builtins.
    except ZeroDivisionError:
        raise ValueError(f"{expression} divides by zero{where(expression, symbols)}") from None
