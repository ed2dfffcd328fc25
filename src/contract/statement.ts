import Type, { type Static } from 'typebox';
import type { BurnRate } from '../domain/accounting/burn-rate.ts';
import type { ChargeUnit } from '../domain/accounting/charge.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { publicUnits } from '../domain/units.ts';
import { namedObject, nullable, time, timestamp, toIsoTime, toIsoTimeOrNull } from './fields.ts';
import { chargedUnit, timeUnits } from './ledger.ts';

export const MovementSchema = Type.Object({
  id: Type.Integer({
    description: 'The entry of the ledger. The release of a hold and the charge of a job share one.',
  }),
  at: timestamp,
  kind: Type.Enum([
    'grant',
    'top_up',
    'withdraw',
    'expire',
    'reserve',
    'release',
    'charge',
    'free',
    'refund',
    'transfer',
    'adjust',
  ]),
  change: Type.Number({
    description:
      'Amount added to the balance: positive for a grant, release or refund, negative for a reserve or charge.',
  }),
  balance: Type.Number({ description: 'Available amount after the movement: the previous balance plus the change.' }),
  used: Type.Number({ description: 'Amount that was charged; negative for a refund.' }),
  job_id: nullable(Type.String(), 'The job that caused the movement; null for other causes.'),
  actor: Type.String(),
  reason: Type.String(),
});

const accountStatement = {
  unit: chargedUnit,
  opening_balance: Type.Number(),
  closing_balance: Type.Number(),
  movements: Type.Array(MovementSchema),
};

export const StatementSchema = namedObject(
  'Statement',
  {
    user: Type.String(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    from: timestamp,
    to: timestamp,
    time: Type.Object({
      ...accountStatement,
      burn_rate_per_day: Type.Number({ description: 'Average use per day over the period of the statement.' }),
      runs_out_at: nullable(time, 'When the balance reaches zero at this rate; null if it does not.'),
    }),
    space: Type.Object(accountStatement),
  },
  {
    user: '301330',
    project_hpc: 'HPC_ONE',
    project_name: 'proj_hpc_one_01',
    from: '2026-01-01T00:00:00.000Z',
    to: '2026-02-01T00:00:00.000Z',
    time: {
      unit: 'core-seconds',
      opening_balance: 18_000_000,
      closing_balance: 17_999_640,
      movements: [
        {
          id: 12,
          at: '2026-01-31T12:00:00.000Z',
          kind: 'reserve',
          change: -360,
          balance: 17_999_640,
          used: 0,
          job_id: '7B0E5A52-3C1F-4B9D-9A57-0F2B4E6C8D10',
          actor: '301330',
          reason: 'submission',
        },
      ],
      burn_rate_per_day: 0,
      runs_out_at: null,
    },
    space: { unit: 'KB', opening_balance: 10_000_000, closing_balance: 10_000_000, movements: [] },
  },
);

interface Movement extends Omit<Static<typeof MovementSchema>, 'at' | 'job_id'> {
  at: number;
  jobId: string | null;
}

export interface AccountStatement {
  opening: number;
  closing: number;
  movements: Movement[];
}

/** The statement of a user in a project, in the units of the ledger: seconds and bytes. */
export interface Statement {
  user: string;
  hpc: string;
  /** The unit that the system charges for. */
  charge: ChargeUnit;
  project: string;
  from: number;
  to: number;
  time: AccountStatement & BurnRate;
  space: AccountStatement;
}

export function publicStatement(statement: Statement): Static<typeof StatementSchema> {
  const { time, space } = statement;
  return {
    user: statement.user,
    project_hpc: publicSystemName(statement.hpc),
    project_name: statement.project,
    from: toIsoTime(statement.from),
    to: toIsoTime(statement.to),
    time: {
      ...publicAccountStatement(time, timeUnits[statement.charge], publicUnits.time.size),
      burn_rate_per_day: time.perDay,
      runs_out_at: toIsoTimeOrNull(time.runsOutAt),
    },
    space: publicAccountStatement(space, publicUnits.space.name, publicUnits.space.size),
  };
}

function publicAccountStatement(account: AccountStatement, unit: Static<typeof chargedUnit>, size: number) {
  return {
    unit,
    opening_balance: account.opening / size,
    closing_balance: account.closing / size,
    movements: account.movements.map(({ at, change, balance, used, jobId, ...rest }) => ({
      ...rest,
      at: toIsoTime(at),
      change: change / size,
      balance: balance / size,
      used: used / size,
      job_id: jobId,
    })),
  };
}
