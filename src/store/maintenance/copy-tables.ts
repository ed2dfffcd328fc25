import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import { describeSchema } from '../database/schema-check.ts';

type Row = Readonly<Record<string, unknown>>;

/** A table as the database describes it. So new tables are copied without being listed here. */
interface Table {
  name: string;
  columns: string[];
  /** The columns of the primary key. */
  key: string[];
  /** The tables that its foreign keys refer to. */
  parents: string[];
  /** Whether the database assigns the ids. */
  hasGeneratedIds: boolean;
  /** Whether it has a column of bytes, so that its rows can be large. */
  hasBytes: boolean;
}

/** SQLite binds at most 32,766 values in a statement. */
const maxValues = 20_000;
const maxLargeRows = 100;

export async function countRows(db: Db): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { name } of await describeTables(db)) {
    const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(name)}`.execute(db);
    counts.set(name, Number(rows[0]?.n));
  }
  return counts;
}

/**
 * Copies every row of every table, and the last assigned ids, so that no id is reused. Both databases must have the same
 * schema, and the target must be empty. Returns digests of the rows that were read.
 */
export async function copyTables(from: Db, to: Tx): Promise<TableDigests> {
  const { setLastId } = to.backend.dialect;
  const digests = new Map<string, string>();
  for (const table of await describeTables(from)) {
    const { name, columns } = table;
    const names = sql.join(columns.map((column) => sql.ref(column)));
    const { digest, lastId } = await readRows(from, table, async (rows) => {
      const values = rows.map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`);
      await sql`insert into ${sql.table(name)} (${names}) values ${sql.join(values)}`.execute(to);
    });
    if (table.hasGeneratedIds) await setLastId(to, name, lastId);
    digests.set(name, digest);
  }
  return digests;
}

/** Reads every row. */
export async function digestTables(db: Db): Promise<TableDigests> {
  const digests = new Map<string, string>();
  for (const table of await describeTables(db)) digests.set(table.name, (await readRows(db, table)).digest);
  return digests;
}

/**
 * Passes the rows of a table on in batches. Returns their digest, which includes the last assigned id. That id is read once: on
 * PostgreSQL it increases while others insert rows, although the transaction does not see the rows.
 */
async function readRows(
  db: Db,
  { name, columns, key, hasGeneratedIds, hasBytes }: Table,
  onRows: (rows: readonly Row[]) => Promise<void> = async () => undefined,
): Promise<{ digest: string; lastId: number }> {
  const batchSize = hasBytes ? maxLargeRows : Math.floor(maxValues / columns.length);
  const digest = createTableDigest(columns);
  const keyColumns = sql.join(key.map((column) => sql.ref(column)));
  let condition = sql`true`;
  for (;;) {
    const query = sql<Row>`select * from ${sql.table(name)} where ${condition} order by ${keyColumns} limit ${batchSize}`;
    const { rows } = await query.execute(db.withoutPlugins());
    for (const row of rows) digest.add(row);
    const last = rows.at(-1);
    if (last !== undefined) await onRows(rows);
    if (last === undefined || rows.length < batchSize) break;
    condition = sql`(${keyColumns}) > (${sql.join(key.map((column) => last[column]))})`;
  }
  const lastId = hasGeneratedIds ? await db.backend.dialect.lastId(db, name) : 0;
  return { digest: digest.finish(lastId), lastId };
}

/** Lists the tables, each after the tables that its foreign keys refer to. */
async function describeTables(db: Db): Promise<Table[]> {
  const remaining = new Map<string, Table>();
  for (const [object, definition] of Object.entries(await describeSchema(db))) {
    const [, kind, name = '', column = ''] = /^(column|primary key|foreign key) ([^.]+)\.?(.*)$/.exec(object) ?? [];
    if (kind === undefined) continue;
    const empty: Table = { name, columns: [], key: [], parents: [], hasGeneratedIds: false, hasBytes: false };
    const table = remaining.get(name) ?? empty;
    remaining.set(name, table);
    if (kind === 'primary key') table.key = definition.split(', ');
    else if (kind === 'foreign key') table.parents.push(definition.split('.', 1)[0] ?? '');
    else {
      table.columns.push(column);
      table.hasGeneratedIds ||= definition === 'identity';
      table.hasBytes ||= definition.startsWith('bytes');
    }
  }
  const ordered: Table[] = [];
  while (remaining.size > 0) {
    const next = [...remaining.values()].find(({ name, parents }) =>
      parents.every((parent) => parent === name || !remaining.has(parent)),
    );
    if (next === undefined)
      throw new Error(`circular foreign keys between the tables: ${[...remaining.keys()].join(', ')}`);
    remaining.delete(next.name);
    ordered.push(next);
  }
  return ordered;
}

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
    add(row: Row): void {
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
