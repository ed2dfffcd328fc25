export type Row = Record<string, unknown>;

/** The rows that one submission writes, as the database gave them. */
export interface SubmissionRows {
  job: Row;
  /** Its zip. */
  input: Row;
  owner: unknown;
  entries: Row[];
  hold: Row;
  event: Row;
}

/** Reads the rows of the one submission that is in the books. */
export async function readRows(query: (text: string) => Promise<Row[]> | Row[]): Promise<SubmissionRows> {
  const rowsOf = async (text: string) => (await query(text)).map(({ id, ...values }) => values);
  const [job = {}] = await rowsOf('select * from jobs');
  const [input = {}] = await rowsOf('select * from inputs');
  const entries = await rowsOf("select * from entries where kind = 'reserve' order by id");
  const [hold = {}] = await rowsOf('select * from holds');
  const [event = {}] = await rowsOf("select * from events where kind = 'job.accepted'");
  return { job, input, owner: job.owner, entries, hold, event };
}

/** An insert for a row, with a mark for each of its values. */
export function insertSql(table: string, row: Row | undefined, mark: (place: number) => string): string {
  const columns = Object.keys(row ?? {});
  return `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => mark(index + 1)).join(', ')})`;
}

export const holdSql = (mark: (place: number) => string) =>
  `update accounts set held = held + ${mark(1)}, version = version + 1
   where id = ${mark(2)} and granted - (posted + held + overrun) >= ${mark(3)} returning id`;

export const incrementCountersSql = (mark: (place: number) => string) =>
  `update users set event_seq = event_seq + 1, jobs_version = jobs_version + 1 where id = ${mark(1)} returning event_seq`;
