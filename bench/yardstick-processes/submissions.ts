// Submissions by hand: the rows of a real one again and again, by prepared statements, each durable before the next.
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import pg from 'pg';
import {
  holdSql,
  incrementCountersSql,
  insertSql,
  type Row,
  readRows,
  type SubmissionRows,
} from './submission-rows.ts';

export interface RawSubmissionOptions {
  /** Books with one submission in them: a SQLite file, or the address of a PostgreSQL database. */
  database: string;
  /** What comes with each, and the folder that it is written to; null where it is a row like the others. */
  zip: { file: string; folder: string } | null;
  /** How many are under way at a time, each on a connection of its own; on SQLite it is one. */
  concurrency: number;
}

type Submit = () => Promise<void> | void;

process.once('message', async (where: RawSubmissionOptions) => {
  const submits = where.database.startsWith('postgres:')
    ? await openPostgresSubmitters(where)
    : [await openSqliteSubmitter(where)];
  process.on('message', async ({ seconds }: { seconds: number | null }) => {
    process.send?.({ rate: await measureRate(submits, seconds) });
  });
  process.once('disconnect', () => process.exit());
  process.send?.({});
});

async function measureRate(submits: readonly Submit[], seconds: number | null): Promise<number> {
  const begunAt = performance.now();
  const isOver = () => seconds === null || performance.now() - begunAt >= seconds * 1000;
  let count = 0;
  const loop = async (submit: Submit) => {
    do {
      await submit();
      count++;
    } while (!isOver());
  };
  await Promise.all(submits.map(loop));
  return (count * 1000) / (performance.now() - begunAt);
}

async function openSqliteSubmitter({ database, zip }: RawSubmissionOptions): Promise<Submit> {
  const books = new Sqlite(database);
  books.pragma('journal_mode = WAL');
  books.pragma('synchronous = FULL');
  const rows = await readRows((text) => books.prepare(text).all() as Row[]);
  const mark = () => '?';
  const insertJob = books.prepare(`${insertSql('jobs', rows.job, mark)} returning id`);
  const hold = books.prepare(holdSql(mark));
  const insertEntry = books.prepare(insertSql('entries', rows.entries[0], mark));
  const insertHold = books.prepare(insertSql('holds', rows.hold, mark));
  const count = books.prepare(incrementCountersSql(mark));
  const insertEvent = books.prepare(insertSql('events', rows.event, mark));
  const record = books.transaction((name: string) => {
    const { id } = insertJob.get(Object.values({ ...rows.job, job_id: name })) as { id: number };
    for (const { account_id, held } of rows.entries) hold.get(held, account_id, held);
    for (const entry of rows.entries) insertEntry.run(Object.values({ ...entry, job: id }));
    insertHold.run(Object.values({ ...rows.hold, job: id }));
    const { event_seq: seq } = count.get(rows.owner) as { event_seq: number };
    insertEvent.run(Object.values({ ...rows.event, job: id, seq }));
  });
  const keep = zip && createZipWriter(zip);
  return () => {
    const name = crypto.randomUUID();
    keep?.(name);
    record.immediate(name);
  };
}

async function openPostgresSubmitters({ database, zip, concurrency: atOnce }: RawSubmissionOptions): Promise<Submit[]> {
  const clients = Array.from({ length: atOnce }, () => new pg.Client({ connectionString: database }));
  await Promise.all(clients.map((client) => client.connect()));
  const rows = await readRows(async (text) => ((await clients[0]?.query(text))?.rows ?? []) as Row[]);
  const keep = zip && createZipWriter(zip);
  return clients.map((client) => async () => {
    const name = crypto.randomUUID();
    keep?.(name);
    await insertIntoPostgres(client, rows, name, keep !== null);
  });
}

async function insertIntoPostgres(
  client: pg.Client,
  rows: SubmissionRows,
  name: string,
  withFile: boolean,
): Promise<void> {
  const mark = (place: number) => `$${place}`;
  // A name has the server prepare the statement once.
  const run = async (text: string, values: unknown[]) =>
    (await client.query({ name: text.slice(0, 60), text, values })).rows[0];
  await client.query('begin');
  const { event_seq: seq } = await run(incrementCountersSql(mark), [rows.owner]);
  const { id } = await run(
    `${insertSql('jobs', rows.job, mark)} returning id`,
    Object.values({ ...rows.job, job_id: name }),
  );
  if (!withFile) await run(insertSql('inputs', rows.input, mark), Object.values({ ...rows.input, job: id }));
  for (const { account_id, held } of rows.entries) await run(holdSql(mark), [held, account_id, held]);
  for (const entry of rows.entries) await run(insertSql('entries', entry, mark), Object.values({ ...entry, job: id }));
  await run(insertSql('holds', rows.hold, mark), Object.values({ ...rows.hold, job: id }));
  await run(insertSql('events', rows.event, mark), Object.values({ ...rows.event, job: id, seq }));
  await client.query('commit');
}

function createZipWriter({ file, folder }: { file: string; folder: string }): (name: string) => void {
  const bytes = readFileSync(file);
  return (name) => {
    const handle = openSync(join(folder, `${name}.zip`), 'wx');
    writeSync(handle, bytes);
    fsyncSync(handle);
    closeSync(handle);
  };
}
