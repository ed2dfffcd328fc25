import Type, { type Static } from 'typebox';
import type { ChargeUnit } from '../domain/accounting/price.ts';
import { type AccountBalance, availableBalance } from '../domain/accounting/settlement.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { publicUnits } from '../domain/units.ts';
import { nullableString, resource, timestamp } from './fields.ts';
import { toIsoTime, toIsoTimeOrNull } from './json-format.ts';

export const QuoteSchema = Type.Object(
  {
    project_hpc: Type.String(),
    project_name: Type.String(),
    runtime: Type.Number({ description: 'Runtime that would be granted, in hours.' }),
    cost: Type.Integer({ description: 'Charged seconds that would be put on hold.' }),
    accepted: Type.Boolean({ description: 'Whether the job would be accepted now.' }),
    reason: nullableString('Why the job would not be accepted; null if it would.'),
    binding_account: nullableString('The account with too little left: `pool` (project) or `cap` (own quota).'),
    time_left: Type.Integer({ description: 'Charged seconds that would remain.' }),
    longest_runtime: Type.Number({ description: 'The longest runtime, in hours, that would fit now.' }),
  },
  { $id: 'Quote', additionalProperties: false },
);

const Movement = Type.Object({
  id: Type.Integer({
    description: 'The entry of the ledger. The release of a hold and the charge of a job share one.',
  }),
  at: timestamp,
  kind: Type.String({
    description: 'grant, top_up, withdraw, expire, reserve, release, charge, free, refund, transfer',
  }),
  change: Type.Number({
    description:
      'What is added to the balance: positive for a grant, release or refund, negative for a reserve or charge.',
  }),
  balance: Type.Number({ description: 'Available amount after the movement: the previous balance plus the change.' }),
  used: Type.Number({ description: 'Amount that was charged; negative for a refund.' }),
  job_id: nullableString('The job that caused the movement; null for other causes.'),
  actor: Type.String(),
  reason: Type.String(),
});

const accountStatement = {
  unit: Type.String({
    description: 'Of all amounts: `core-seconds`, `node-seconds` or `seconds`, as the system charges; `KB`.',
  }),
  opening_balance: Type.Number(),
  closing_balance: Type.Number(),
  movements: Type.Array(Movement),
};

export const StatementSchema = Type.Object(
  {
    user: Type.String(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    from: timestamp,
    to: timestamp,
    time: Type.Object({
      ...accountStatement,
      burn_rate_per_day: Type.Number({ description: 'Average use per day over the period of the statement.' }),
      runs_out_at: nullableString('When the balance reaches zero at this rate; null if it does not.'),
    }),
    space: Type.Object(accountStatement),
  },
  { $id: 'Statement', additionalProperties: false },
);

export const UsageSchema = Type.Object(
  {
    user: Type.String(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    month: Type.String({ examples: ['2026-01'] }),
    jobs: Type.Integer({ description: 'Jobs that ended.' }),
    time_seconds: Type.Integer({ description: 'Charged seconds, minus refunds.' }),
  },
  { $id: 'Usage', additionalProperties: false },
);

export const AccountSchema = Type.Object(
  {
    user: nullableString('The user of a cap; null for the pool of the project.'),
    resource,
    unit: Type.String(),
    granted: Type.Number(),
    held: Type.Number(),
    used: Type.Number(),
    available: Type.Number(),
  },
  { $id: 'Account', additionalProperties: false },
);

export const LedgerVerificationSchema = Type.Object(
  {
    balanced: Type.Boolean(),
    accounts: Type.Integer({ description: 'Number of accounts checked.' }),
    entries: Type.Integer({ description: 'Number of ledger entries added up.' }),
    problems: Type.Array(Type.String(), { description: 'Inconsistencies, ordered by account.' }),
  },
  { $id: 'LedgerProof', additionalProperties: false },
);

interface AccountFields extends AccountBalance {
  /** The user of a cap; empty for the pool of the project. */
  holder: string;
  resource: 'time' | 'space';
}

export function publicAccount(account: AccountFields): Static<typeof AccountSchema> {
  const { name: unit, size } = publicUnits[account.resource];
  return {
    user: account.holder === '' ? null : account.holder,
    resource: account.resource,
    unit,
    granted: account.granted / size,
    held: account.held / size,
    used: (account.posted + account.overrun) / size,
    available: availableBalance(account) / size,
  };
}

interface MovementFields {
  id: number;
  at: number;
  kind: string;
  change: number;
  balance: number;
  used: number;
  jobId: string | null;
  actor: string;
  reason: string;
}

interface AccountStatementFields {
  opening: number;
  closing: number;
  movements: MovementFields[];
}

interface StatementFields {
  user: string;
  hpc: string;
  charge: ChargeUnit;
  project: string;
  from: number;
  to: number;
  time: AccountStatementFields & { perDay: number; runsOutAt: number | null };
  space: AccountStatementFields;
}

const timeUnits = { core: 'core-seconds', node: 'node-seconds', wall: 'seconds' } as const satisfies Record<
  ChargeUnit,
  string
>;

export function publicStatement(statement: StatementFields): Static<typeof StatementSchema> {
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

function publicAccountStatement(account: AccountStatementFields, unit: string, size: number) {
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
