import type { Statement } from '#client';
import { formatNumber } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { parseSince } from '../job/parse-since.ts';
import { chooseProject } from '../project.ts';
import type { Column } from '../terminal/table.ts';
import { formatExactNumber, relativeTime } from '../terminal/time.ts';

interface StatementOptions {
  /** System and project: hpc_one/proj_hpc_one_01. */
  project?: string;
  from?: string;
  to?: string;
  csv?: boolean;
  /** For `admin statement`. */
  user?: string;
}

type Movement = Statement['time']['movements'][number] & { unit: string };

export async function run(context: Context, options: StatementOptions): Promise<void> {
  if (options.csv && context.options.json) throw usageError('--csv and --json exclude each other.');
  const { api } = await context.client();
  const path = await chooseProject(context, options.project, options.user);
  const times = {
    ...(options.from === undefined ? {} : { from: parseSince(options.from, context.now()) }),
    ...(options.to === undefined ? {} : { to: parseSince(options.to, context.now()) }),
  };
  const { signal } = context;
  const { user } = options;
  if (options.csv) {
    const query = { ...times, format: 'csv' } as const;
    const text =
      user === undefined
        ? await api.getStatement({ path, query, signal, as: 'text' })
        : await api.getStatementOfUser({ path: { ...path, user_id: user }, query, signal, as: 'text' });
    return await context.print(text);
  }
  const statement =
    user === undefined
      ? await api.getStatement({ path, query: times, signal })
      : await api.getStatementOfUser({ path: { ...path, user_id: user }, query: times, signal });
  if (context.options.json) return await context.printJson(statement);
  await printStatement(context, statement);
}

async function printStatement(context: Context, statement: Statement): Promise<void> {
  const { time, space } = statement;
  const movements = [time, space].flatMap(({ unit, movements: list }) =>
    list.map((movement) => ({ ...movement, unit })),
  );
  if (context.isTerminal) {
    const period = `${statement.from.slice(0, 10)} to ${statement.to.slice(0, 10)}`;
    const project = `${statement.project_hpc.toLowerCase()}/${statement.project_name}`;
    const balance = ({
      opening_balance: opening,
      closing_balance: closing,
      unit,
    }: {
      opening_balance: number;
      closing_balance: number;
      unit: string;
    }) => `${formatNumber(opening)} → ${formatNumber(closing)} ${unit}`;
    const end = time.runs_out_at === null ? '' : `, used up ${relativeTime(time.runs_out_at, context.now())}`;
    await context.printFields([
      ['statement', `${project} of ${statement.user}, ${period}`],
      ['time', `${balance(time)}, ${formatNumber(time.burn_rate_per_day)} ${time.unit} a day${end}`],
      ['space', balance(space)],
    ]);
    await context.print('\n');
  }
  await context.printTable(movements, movementColumns(context), 'Nothing has changed in this period.');
}

function movementColumns({ now }: Context): Column<Movement>[] {
  const number = (title: string, value: (movement: Movement) => number): Column<Movement> => ({
    title,
    value: (movement) => formatExactNumber(value(movement)),
    plain: (movement) => String(value(movement)),
    align: 'right',
  });
  return [
    { title: 'When', value: ({ at }) => relativeTime(at, now()), plain: ({ at }) => at },
    { title: 'Kind', value: ({ kind }) => kind },
    number('Change', ({ change }) => change),
    number('Balance', ({ balance }) => balance),
    { title: 'Unit', value: ({ unit }) => unit },
    { title: 'Job', value: ({ job_id: id }) => id ?? '', flexible: true },
    { title: 'Reason', value: ({ reason }) => reason, flexible: true },
  ];
}
