export type Row = Record<string, unknown>;

/** The rows that one submission inserts, as read from the database. */
export interface SubmissionRows {
  job: Row;
  /** The zip. */
  input: Row;
  owner: unknown;
  entries: Row[];
  hold: Row;
  event: Row;
}

/** Reads the rows of the only submission in the database. */
export async function readRows(query: (text: string) => Promise<Row[]> | Row[]): Promise<SubmissionRows> {
  const select = async (text: string) => (await query(text)).map(({ id, ...values }) => values);
  const [job = {}] = await select('select * from jobs');
  const [input = {}] = await select('select * from inputs');
  const entries = await select("select * from entries where kind = 'reserve' order by id");
  const [hold = {}] = await select('select * from holds');
  const [event = {}] = await select("select * from events where kind = 'job.accepted'");
  return { job, input, owner: job.owner, entries, hold, event };
}

/** The insert statement for a row; `placeholder` gives the SQL placeholder at a position. */
export function insertSql(table: string, row: Row | undefined, placeholder: (position: number) => string): string {
  const columns = Object.keys(row ?? {});
  return `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => placeholder(index + 1)).join(', ')})`;
}

export const holdSql = (placeholder: (position: number) => string) =>
  `update accounts set held = held + ${placeholder(1)}, version = version + 1
   where id = ${placeholder(2)} and granted - (posted + held + overrun) >= ${placeholder(3)} returning id`;

export const incrementCountersSql = (placeholder: (position: number) => string) =>
  `update users set event_seq = event_seq + 1, jobs_version = jobs_version + 1 where id = ${placeholder(1)} returning event_seq`;
