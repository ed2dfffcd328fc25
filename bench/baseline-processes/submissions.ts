// Inserts the rows of a real submission repeatedly by prepared statements, each durable before the next.
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
  /** A database with one submission: a SQLite file, or the URL of a PostgreSQL database. */
  database: string;
  /** The zip of each submission and the folder to write it to; null if the zip is stored as a row. */
  zip: { file: string; folder: string } | null;
  /** Number of concurrent submissions, each on its own connection; 1 on SQLite. */
  concurrency: number;
}

type Submit = () => Promise<void> | void;

process.once('message', async (options: RawSubmissionOptions) => {
  const submitters = options.database.startsWith('postgres:')
    ? await openPostgresSubmitters(options)
    : [await openSqliteSubmitter(options)];
  process.on('message', async ({ seconds }: { seconds: number | null }) => {
    process.send?.({ rate: await measureRate(submitters, seconds) });
  });
  process.once('disconnect', () => process.exit());
  process.send?.({});
});

async function measureRate(submitters: readonly Submit[], seconds: number | null): Promise<number> {
  const startedAt = performance.now();
  const isOver = () => seconds === null || performance.now() - startedAt >= seconds * 1000;
  let count = 0;
  const loop = async (submit: Submit) => {
    do {
      await submit();
      count++;
    } while (!isOver());
  };
  await Promise.all(submitters.map(loop));
  return (count * 1000) / (performance.now() - startedAt);
}

async function openSqliteSubmitter({ database: file, zip }: RawSubmissionOptions): Promise<Submit> {
  const database = new Sqlite(file);
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  const rows = await readRows((text) => database.prepare(text).all() as Row[]);
  const placeholder = () => '?';
  const insertJob = database.prepare(`${insertSql('jobs', rows.job, placeholder)} returning id`);
  const hold = database.prepare(holdSql(placeholder));
  const insertEntry = database.prepare(insertSql('entries', rows.entries[0], placeholder));
  const insertHold = database.prepare(insertSql('holds', rows.hold, placeholder));
  const incrementCounters = database.prepare(incrementCountersSql(placeholder));
  const insertEvent = database.prepare(insertSql('events', rows.event, placeholder));
  const insertRows = database.transaction((name: string) => {
    const { id } = insertJob.get(Object.values({ ...rows.job, job_id: name })) as { id: number };
    for (const { account_id, held } of rows.entries) hold.get(held, account_id, held);
    for (const entry of rows.entries) insertEntry.run(Object.values({ ...entry, job: id }));
    insertHold.run(Object.values({ ...rows.hold, job: id }));
    const { event_seq: seq } = incrementCounters.get(rows.owner) as { event_seq: number };
    insertEvent.run(Object.values({ ...rows.event, job: id, seq }));
  });
  const writeZip = zip && createZipWriter(zip);
  return () => {
    const name = crypto.randomUUID();
    writeZip?.(name);
    insertRows.immediate(name);
  };
}

async function openPostgresSubmitters({ database, zip, concurrency }: RawSubmissionOptions): Promise<Submit[]> {
  const clients = Array.from({ length: concurrency }, () => new pg.Client({ connectionString: database }));
  await Promise.all(clients.map((client) => client.connect()));
  const rows = await readRows(async (text) => ((await clients[0]?.query(text))?.rows ?? []) as Row[]);
  const writeZip = zip && createZipWriter(zip);
  return clients.map((client) => async () => {
    const name = crypto.randomUUID();
    writeZip?.(name);
    await insertIntoPostgres(client, rows, name, writeZip !== null);
  });
}

async function insertIntoPostgres(
  client: pg.Client,
  rows: SubmissionRows,
  name: string,
  isZipInFile: boolean,
): Promise<void> {
  const placeholder = (position: number) => `$${position}`;
  // PostgreSQL prepares a named statement once.
  const run = async (text: string, values: unknown[]) =>
    (await client.query({ name: text.slice(0, 60), text, values })).rows[0];
  await client.query('begin');
  const { event_seq: seq } = await run(incrementCountersSql(placeholder), [rows.owner]);
  const { id } = await run(
    `${insertSql('jobs', rows.job, placeholder)} returning id`,
    Object.values({ ...rows.job, job_id: name }),
  );
  if (!isZipInFile) await run(insertSql('inputs', rows.input, placeholder), Object.values({ ...rows.input, job: id }));
  for (const { account_id, held } of rows.entries) await run(holdSql(placeholder), [held, account_id, held]);
  for (const entry of rows.entries)
    await run(insertSql('entries', entry, placeholder), Object.values({ ...entry, job: id }));
  await run(insertSql('holds', rows.hold, placeholder), Object.values({ ...rows.hold, job: id }));
  await run(insertSql('events', rows.event, placeholder), Object.values({ ...rows.event, job: id, seq }));
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
