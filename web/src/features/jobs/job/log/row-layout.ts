/** The height of a row of the log in pixels, as in the style sheet. All rows have the same, so that only the visible ones exist. */
export const rowHeight = 20;

/** Wide rows are cut in this mode: a browser needs long for a row of a million characters. */
const maxRowLength = 5000;

/** Places the lines of a log in rows. A line that is wrapped has several. */
export interface RowLayout {
  rowCount: number;
  /** The first row of a line. */
  rowOf(line: number): number;
  lineAt(row: number): number;
  /** The part of the line that is in the row. */
  textAt(row: number): string;
}

/** `columns` is the number of characters in a row; undefined if lines are not wrapped. */
export function layoutRows(lines: readonly string[], columns: number | undefined): RowLayout {
  if (columns === undefined) {
    return {
      rowCount: lines.length,
      rowOf: (line) => line,
      lineAt: (row) => row,
      textAt: (row) => (lines[row] ?? '').slice(0, maxRowLength),
    };
  }
  const starts = new Uint32Array(lines.length + 1);
  for (let line = 0; line < lines.length; line++)
    starts[line + 1] = (starts[line] ?? 0) + Math.max(1, Math.ceil((lines[line]?.length ?? 0) / columns));
  const rowOf = (line: number) => starts[line] ?? 0;
  const lineAt = (row: number) => {
    let low = 0;
    let high = lines.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (rowOf(middle) <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  return {
    rowCount: rowOf(lines.length),
    rowOf,
    lineAt,
    textAt(row) {
      const line = lineAt(row);
      const text = lines[line] ?? '';
      const start = (row - rowOf(line)) * columns;
      return text.slice(skipHalf(text, start), skipHalf(text, start + columns));
    },
  };
}

/** Characters beyond the basic plane have two halves, which stay together. */
function skipHalf(text: string, index: number): number {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code <= 0xdfff ? index + 1 : index;
}
