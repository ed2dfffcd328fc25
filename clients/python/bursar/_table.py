"""Tables: lists of rows that print as aligned text, and as HTML in notebooks."""

from __future__ import annotations

import html
import unicodedata
from typing import Any, Iterable, List, Optional, Sequence

from ._types import Row


class Table(List[Row]):
    """A list of dicts with one column for each key. `to_pandas()` makes a DataFrame of it, if pandas is installed."""

    def __init__(self, rows: Iterable[Row] = (), columns: Optional[Sequence[str]] = None) -> None:
        super().__init__(rows)
        self.columns: List[str] = list(columns) if columns is not None else _columns(self)

    def __repr__(self) -> str:
        return format_text(self.columns, [[row.get(name) for name in self.columns] for row in self])

    def _repr_html_(self) -> str:
        return format_html(self.columns, [[row.get(name) for name in self.columns] for row in self])

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the same columns. Raises ImportError if pandas is not installed."""
        return to_pandas(self, self.columns)


def to_pandas(rows: Sequence[Row], columns: Sequence[str]) -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas() needs pandas. Install it with `pip install pandas`.") from None
    return pandas.DataFrame(list(rows), columns=list(columns))


def format_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return "(no rows)"
    cells = [[format_cell(value) for value in row] for row in rows]
    is_number = [all(isinstance(row[i], (int, float)) or row[i] is None for row in rows) for i in range(len(columns))]
    widths = [max(_width(name), *(_width(row[i]) for row in cells)) for i, name in enumerate(columns)]

    def line(texts: Sequence[str]) -> str:
        padded = []
        for text, width, right in zip(texts, widths, is_number):
            space = " " * (width - _width(text))
            padded.append(space + text if right else text + space)
        return "  ".join(padded).rstrip()

    return "\n".join([line(columns), *(line(row) for row in cells)])


def format_html(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(format_cell(value))}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))


def printable(text: str) -> str:
    """The text without control characters, so that a title or a file name cannot steer the terminal.

    Halves of surrogate pairs are replaced as well: no terminal can show them, and print() would fail.
    """
    return "".join(c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else "�" for c in text)


def truncate(text: str, max_width: int) -> str:
    """The start of the text that fits into so many columns of a terminal."""
    while _width(text) > max_width:
        text = text[:-1]
    return text


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _columns(rows: Iterable[Row]) -> List[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
