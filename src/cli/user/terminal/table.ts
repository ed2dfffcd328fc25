import type { Colour, Style } from './style.ts';
import { escapeText, shorten, textWidth } from './text.ts';

export interface Column<Row> {
  title: string;
  /** The text of a cell on a terminal. It may come from the server: it is escaped here. */
  value(row: Row): string;
  /** The text in a pipe, if it differs: an absolute time, a number without unit. */
  plain?(row: Row): string;
  colour?(row: Row): Colour | undefined;
  align?: 'right';
  /**
   * May be shortened if the table is wider than the terminal. Of several such columns the widest is shortened. If that is
   * not enough, the last ones are left out.
   */
  flexible?: boolean;
}

export interface TableOptions {
  /** Columns of the terminal; undefined for a pipe. */
  columns: number | undefined;
  style: Style;
}

const gap = '  ';
const minFlexibleWidth = 6;

/**
 * Formats rows for a terminal or for a pipe. On a terminal the columns are aligned, and no line is wider than the terminal
 * as long as flexible columns can be shortened or left out. In a pipe the cells are separated by tabs, and the first line has the titles.
 */
export function formatTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[], options: TableOptions): string {
  const lines = options.columns === undefined ? pipeLines(rows, columns) : terminalLines(rows, columns, options);
  return lines.map((line) => `${line}\n`).join('');
}

function pipeLines<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string[] {
  const title = columns.map((column) => column.title.toLowerCase().replaceAll(' ', '_')).join('\t');
  const cell = (column: Column<Row>, row: Row) => escapeText((column.plain ?? column.value)(row));
  return [title, ...rows.map((row) => columns.map((column) => cell(column, row)).join('\t'))];
}

/** The lines of a table on a terminal. A live view redraws them. */
export function terminalLines<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  options: TableOptions,
): string[] {
  const { columns: width = 80, style } = options;
  const cells = rows.map((row) => columns.map((column) => escapeText(column.value(row))));
  const widths = fitWidths(
    columns.map((column, index) => ({
      width: Math.max(textWidth(column.title), ...cells.map((row) => textWidth(row[index] ?? ''))),
      isFlexible: column.flexible ?? false,
    })),
    width,
  );
  const lastFlexible = columns.findLastIndex(({ flexible }) => flexible);
  if (totalWidth(widths) > width && lastFlexible > 0)
    return terminalLines(rows, columns.toSpliced(lastFlexible, 1), options);
  const pad = (text: string, index: number) => {
    const short = shorten(text, widths[index] ?? 0);
    const space = ' '.repeat(Math.max(0, (widths[index] ?? 0) - textWidth(short)));
    return columns[index]?.align === 'right' ? space + short : short + space;
  };
  const title = columns
    .map((column, index) => pad(column.title, index))
    .join(gap)
    .trimEnd();
  return [
    style('bold', title),
    ...rows.map((row, line) =>
      columns
        .map((column, index) => {
          const text = pad(cells[line]?.[index] ?? '', index);
          const colour = column.colour?.(row);
          return colour === undefined ? text : style(colour, text);
        })
        .join(gap)
        .trimEnd(),
    ),
  ];
}

const totalWidth = (widths: readonly number[]) =>
  widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1);

/** Reduces the widest flexible column, step by step, until the line fits or none can be reduced. */
function fitWidths(columns: { width: number; isFlexible: boolean }[], available: number): number[] {
  const widths = columns.map(({ width }) => width);
  for (let excess = totalWidth(widths) - available; excess > 0; excess = totalWidth(widths) - available) {
    const flexible = widths.flatMap((width, index) =>
      columns[index]?.isFlexible && width > minFlexibleWidth ? [index] : [],
    );
    const widest = flexible.reduce<number | undefined>(
      (best, index) => (best === undefined || (widths[index] ?? 0) > (widths[best] ?? 0) ? index : best),
      undefined,
    );
    if (widest === undefined) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}
