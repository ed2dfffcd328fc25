/**
 * Selects the rows of a live view that is higher than the terminal: those with the lowest rank. The order of the rows stays.
 * Of rows with the same rank the first are shown.
 */
export function selectRows<Row>(rows: readonly Row[], maxRows: number, rank: (row: Row) => number): readonly Row[] {
  if (rows.length <= maxRows) return rows;
  const chosen = new Set(rows.toSorted((a, b) => rank(a) - rank(b)).slice(0, maxRows));
  return rows.filter((row) => chosen.has(row));
}

/** The number of rows of a table that fit on the terminal, with so many other lines. */
export function maxTableRows(terminalRows: number | undefined, otherLines: number): number {
  return Math.max(3, (terminalRows ?? 24) - otherLines);
}
