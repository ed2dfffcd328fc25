import { createHash } from 'node:crypto';

/** A digest of the rows of each table. Two databases with the same digests have the same rows, whatever their kind. */
export type TableDigests = ReadonlyMap<string, string>;

/**
 * Hashes rows one by one. Databases return the rows of a table in different orders, so that the digest is the sum of the
 * hashes of its rows. (With exclusive or, a row that occurs twice would vanish.)
 */
export function createTableDigest(columns: readonly string[]) {
  const names = columns.toSorted();
  let sum = 0n;
  let rows = 0;
  return {
    add(row: Readonly<Record<string, unknown>>): void {
      const values = names.map((name) => toText(row[name]));
      const hash = createHash('sha256').update(JSON.stringify(values)).digest('hex');
      sum = BigInt.asUintN(256, sum + BigInt(`0x${hash}`));
      rows += 1;
    },
    finish: (lastId: number): string =>
      createHash('sha256')
        .update(JSON.stringify([names, rows, lastId, sum.toString(16)]))
        .digest('hex'),
  };
}

/** A text and a number with the same digits differ, and so do an empty text and null. */
function toText(value: unknown): string | number | null | { bytes: string } {
  if (value === null || typeof value === 'string' || typeof value === 'number') return value;
  if (value instanceof Uint8Array) return { bytes: createHash('sha256').update(value).digest('hex') };
  throw new TypeError(`a column has a value of an unexpected type: ${typeof value}`);
}

/** The tables whose rows differ, or that only one of the databases has. */
export function findDifferentTables(one: TableDigests, other: TableDigests): string[] {
  const names = new Set([...one.keys(), ...other.keys()]);
  return [...names].filter((name) => one.get(name) !== other.get(name)).sort();
}
