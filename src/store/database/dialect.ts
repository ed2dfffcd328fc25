import { type Kysely, sql } from 'kysely';
import { postgresSchemaQuery, sqliteSchemaQuery } from './schema-queries.ts';
import type { Tables } from './tables.ts';

type Handle = Kysely<Tables>;

/** Every difference between the two databases, for migrations and queries. */
export interface Dialect {
  name: 'sqlite' | 'postgres';
  /** SQL for the name and the version of the database. */
  version: string;
  /** SQL for the current time of the database server, in epoch milliseconds. */
  currentTimeMs: string;
  /** Whether transactions lock single rows. On SQLite a transaction locks the whole database. */
  locksRows: boolean;
  /** Whether one statement can insert into several tables. */
  canInsertIntoSeveralTables: boolean;
  /** The column type of an id that the database assigns. Ids are never reused. */
  identityColumn: string;
  bytesColumn: string;
  /** The collation that compares bytes, so that an index serves prefixes. */
  binaryCollation: string;
  /** Statements that make the database reject updates and deletes of a table. */
  appendOnlyTriggers(table: string): string[];
  /**
   * Whether a transaction failed because of a concurrent one, so that a retry may succeed. SQLite runs one transaction
   * at a time, so they never conflict.
   */
  isRetryableConflict(error: unknown): boolean;

  /**
   * Whether an instance of a version before 0.2 uses the database: it can read only secrets that are not encrypted. It cannot
   * start on the new schema, but one that runs continues. On SQLite there is only one instance.
   */
  hasOlderInstance(db: Handle): Promise<boolean>;
  /** Whether `select … from name` finds a table. */
  hasTable(db: Handle, name: string): Promise<boolean>;
  /** SQL that describes the schema, as `schema-check.ts` needs it. */
  schemaQuery: string;
  /** The schema of the tables. SQLite has none. */
  schemaName(db: Handle): Promise<string | null>;
  foreignKeys(db: Handle): Promise<{ child: string; parent: string }[]>;
  /** All rows of a table in batches. On PostgreSQL the handle must be a transaction. */
  readTable(db: Handle, table: string, batchSize: number): AsyncIterable<Row[]>;
  /** SQL for the next id of a table. On SQLite the id is not reserved before it is inserted. */
  nextId(table: string): string;
  /** The id that a table assigned last, or 0. */
  lastId(db: Handle, table: string): Promise<number>;
  setLastId(db: Handle, table: string, id: number): Promise<void>;
}

type Row = Record<string, unknown>;

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  version: "'SQLite ' || sqlite_version()",
  currentTimeMs: "cast(unixepoch('subsec') * 1000 as integer)",
  locksRows: false,
  canInsertIntoSeveralTables: false,
  identityColumn: 'integer primary key autoincrement',
  bytesColumn: 'blob',
  binaryCollation: 'binary',
  appendOnlyTriggers: (table) =>
    ['update', 'delete'].map(
      (change) => `create trigger ${table}_refuse_${change} before ${change} on ${table}
                begin select raise(abort, '${table} is append-only'); end`,
    ),
  isRetryableConflict: () => false,
  hasOlderInstance: async () => false,
  async hasTable(db, name) {
    const { rows } = await sql`select 1 from sqlite_master where type = 'table' and name = ${name}`.execute(db);
    return rows.length > 0;
  },
  schemaQuery: sqliteSchemaQuery,
  schemaName: async () => null,
  async foreignKeys(db) {
    const { rows } = await sql<{ child: string; parent: string }>`
      select t.name as child, f."table" as parent
      from sqlite_master t, pragma_foreign_key_list(t.name) f where t.type = 'table'`.execute(db);
    return rows;
  },
  async *readTable(db, table, batchSize) {
    for (let lastRowid = -1; ; ) {
      const { rows } = await sql<Row & { rowid_: number }>`
        select rowid as rowid_, * from ${sql.table(table)} where rowid > ${lastRowid}
        order by rowid limit ${batchSize}`.execute(db);
      if (rows.length > 0) yield rows;
      if (rows.length < batchSize) return;
      lastRowid = rows.at(-1)?.rowid_ ?? lastRowid;
    }
  },
  nextId: (table) => `(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = '${table}')`,
  async lastId(db, table) {
    const { rows } = await sql<{ seq: number }>`select seq from sqlite_sequence where name = ${table}`.execute(db);
    return rows[0]?.seq ?? 0;
  },
  async setLastId(db, table, id) {
    await sql`delete from sqlite_sequence where name = ${table}`.execute(db);
    await sql`insert into sqlite_sequence (name, seq) values (${table}, ${id})`.execute(db);
  },
};

/** Serialization failure, deadlock, and unique violation: a retry finds the row that the other transaction inserted. */
const retryableCodes = ['40001', '40P01', '23505'];

export const postgresDialect: Dialect = {
  name: 'postgres',
  version: "'PostgreSQL ' || current_setting('server_version')",
  currentTimeMs: 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)',
  locksRows: true,
  canInsertIntoSeveralTables: true,
  identityColumn: 'bigint generated by default as identity primary key',
  bytesColumn: 'bytea',
  binaryCollation: '"C"',
  appendOnlyTriggers: (table) => [
    `create function ${table}_refuse() returns trigger language plpgsql as
       $$ begin raise exception '${table} is append-only'; end $$`,
    `create trigger ${table}_refuse_change before update or delete on ${table}
       for each row execute function ${table}_refuse()`,
    `create trigger ${table}_refuse_truncate before truncate on ${table}
       for each statement execute function ${table}_refuse()`,
  ],
  isRetryableConflict: (error) => retryableCodes.includes((error as { code?: string }).code ?? ''),
  async hasOlderInstance(db) {
    const { rows } = await sql`select 1 from pg_stat_activity
      where datname = current_database() and application_name like 'bursar %' limit 1`.execute(db);
    return rows.length > 0;
  },
  async hasTable(db, name) {
    const { rows } = await sql`select 1 where to_regclass(${name}) is not null`.execute(db);
    return rows.length > 0;
  },
  schemaQuery: postgresSchemaQuery,
  async schemaName(db) {
    const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(db);
    return rows[0]?.name ?? null;
  },
  async foreignKeys(db) {
    const { rows } = await sql<{ child: string; parent: string }>`
      select c.relname as child, p.relname as parent from pg_constraint f
      join pg_class c on c.oid = f.conrelid join pg_class p on p.oid = f.confrelid
      where f.contype = 'f' and f.connamespace = current_schema()::regnamespace`.execute(db);
    return rows;
  },
  async *readTable(db, table, batchSize) {
    await sql`declare all_rows no scroll cursor for select * from ${sql.table(table)}`.execute(db);
    for (;;) {
      const { rows } = await sql<Row>`fetch forward ${sql.lit(batchSize)} from all_rows`.execute(db);
      if (rows.length > 0) yield rows;
      if (rows.length < batchSize) break;
    }
    await sql`close all_rows`.execute(db);
  },
  nextId: (table) => `nextval(pg_get_serial_sequence('${table}', 'id'))`,
  async lastId(db, table) {
    const { rows } = await sql<{ last: number | null }>`
      select pg_sequence_last_value(pg_get_serial_sequence(${table}, 'id')::regclass) as last`.execute(db);
    return rows[0]?.last ?? 0;
  },
  async setLastId(db, table, id) {
    if (id > 0) await sql`select setval(pg_get_serial_sequence(${table}, 'id'), ${id})`.execute(db);
  },
};
