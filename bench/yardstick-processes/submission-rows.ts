export type Values = Record<string, unknown>;

/** The rows that one submission writes, as the database gave them. */
export interface SubmissionRows {
  job: Values;
  /** Its zip. */
  input: Values;
  owner: unknown;
  entries: Values[];
  hold: Values;
  event: Values;
}

/** Reads the rows of the one submission that is in the books. */
export async function readRows(query: (text: string) => Promise<Values[]> | Values[]): Promise<SubmissionRows> {
  const rowsOf = async (text: string) => (await query(text)).map(({ id, ...values }) => values);
  const [job = {}] = await rowsOf('select * from jobs');
  const [input = {}] = await rowsOf('select * from inputs');
  const entries = await rowsOf("select * from entries where kind = 'reserve' order by id");
  const [hold = {}] = await rowsOf('select * from holds');
  const [event = {}] = await rowsOf("select * from events where kind = 'job.accepted'");
  return { job, input, owner: job.owner, entries, hold, event };
}

/** An insert for a row, with a mark for each of its values. */
export function insertText(table: string, row: Values | undefined, mark: (place: number) => string): string {
  const columns = Object.keys(row ?? {});
  return `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => mark(index + 1)).join(', ')})`;
}

export const holdText = (mark: (place: number) => string) =>
  `update accounts set held = held + ${mark(1)}, version = version + 1
   where id = ${mark(2)} and granted - (posted + held + overrun) >= ${mark(3)} returning id`;

export const countText = (mark: (place: number) => string) =>
  `update users set event_seq = event_seq + 1, jobs_version = jobs_version + 1 where id = ${mark(1)} returning event_seq`;
