export interface CsvTable {
  header: string[];
  rows: string[][];
  /** There are more rows or columns than were read. */
  isCut: boolean;
}

const maxColumns = 50;

/** Reads the first rows of a text with quotes as in RFC 4180. Commas, semicolons or tabs separate the values. */
export function parseCsv(text: string, maxRows: number): CsvTable {
  const separator = findSeparator(text);
  const rows: string[][] = [];
  let row: string[] = [];
  let value = '';
  let isQuoted = false;
  let index = 0;
  const endRow = () => {
    row.push(value);
    value = '';
    if (row.length > 1 || row[0] !== '') rows.push(row);
    row = [];
  };
  for (; index < text.length && rows.length <= maxRows; index++) {
    const character = text[index];
    if (isQuoted) {
      if (character !== '"') value += character;
      else if (text[index + 1] === '"') {
        value += '"';
        index++;
      } else isQuoted = false;
    } else if (character === '"' && value === '') isQuoted = true;
    else if (character === separator) {
      row.push(value);
      value = '';
    } else if (character === '\n') endRow();
    else if (character !== '\r') value += character;
  }
  if (index >= text.length && (value !== '' || row.length > 0)) endRow();
  const [header = [], ...body] = rows;
  const hasManyColumns = rows.some(({ length }) => length > maxColumns);
  return {
    header: header.slice(0, maxColumns),
    rows: body.slice(0, maxRows).map((each) => each.slice(0, maxColumns)),
    isCut: hasManyColumns || index < text.length,
  };
}

/** The separator that is most frequent in the first line. */
function findSeparator(text: string): string {
  const [firstLine = ''] = text.split('\n', 1);
  const countOf = (separator: string) => firstLine.split(separator).length;
  return [',', ';', '\t'].reduce((best, each) => (countOf(each) > countOf(best) ? each : best));
}
