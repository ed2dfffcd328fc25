import Type, { type Static } from 'typebox';
import { availableBalance } from '../domain/accounting/settlement.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { publicUnits } from '../domain/units.ts';
import { toIsoTime } from './json-format.ts';

const Moment = Type.String({ description: 'ISO 8601, UTC.', examples: ['2026-01-31T12:00:00.000Z'] });
const Nullable = (description: string) => Type.Union([Type.String(), Type.Null()], { description });
const Resource = Type.Union([Type.Literal('time'), Type.Literal('space')]);

export const QuoteSchema = Type.Object(
  {
    project_hpc: Type.String(),
    project_name: Type.String(),
    runtime: Type.Number({ description: 'Hours that would be granted.' }),
    cost: Type.Integer({ description: 'Seconds that would be held.' }),
    accepted: Type.Boolean({ description: 'Whether the quota suffices now.' }),
    reason: Nullable('Why it would not be accepted.'),
    binding_account: Nullable('The account that is too small: `pool` or `cap`.'),
    time_left: Type.Integer({ description: 'Seconds that would be left.' }),
    longest_runtime: Type.Number({ description: 'The longest runtime, in hours, that would fit now.' }),
  },
  { $id: 'Quote', additionalProperties: false },
);

const Movement = Type.Object({
  id: Type.Integer(),
  at: Moment,
  kind: Type.String({
    description: 'grant, top_up, withdraw, expire, reserve, release, charge, free, refund, transfer',
  }),
  change: Type.Number({ description: 'By how much the balance changed.' }),
  balance: Type.Number({ description: 'What was available afterwards.' }),
  used: Type.Number({ description: 'What was used by it, or (negative) given back.' }),
  job_id: Nullable('The job that moved it.'),
  actor: Type.String(),
  reason: Type.String(),
});

const accountStatement = {
  unit: Type.String(),
  opening_balance: Type.Number(),
  closing_balance: Type.Number(),
  movements: Type.Array(Movement),
};

export const StatementSchema = Type.Object(
  {
    user: Type.String(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    from: Moment,
    to: Moment,
    time: Type.Object({
      ...accountStatement,
      burn_rate_per_day: Type.Number({ description: 'Used a day, on average over the statement.' }),
      runs_out_at: Nullable('When it runs out at that rate.'),
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
    time_seconds: Type.Integer({ description: 'Seconds charged, refunds taken off.' }),
  },
  { $id: 'Usage', additionalProperties: false },
);

export const AccountSchema = Type.Object(
  {
    user: Nullable('Whose cap it is; null for the pool of the project.'),
    resource: Resource,
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
    accounts: Type.Integer({ description: 'How many were looked at.' }),
    entries: Type.Integer({ description: 'How many were added up.' }),
    problems: Type.Array(Type.String(), { description: 'What does not add up, the first account first.' }),
  },
  { $id: 'LedgerProof', additionalProperties: false },
);

interface AccountFacts {
  holder: string;
  resource: 'time' | 'space';
  granted: number;
  held: number;
  posted: number;
  overrun: number;
}

export function publicAccount(account: AccountFacts): Static<typeof AccountSchema> {
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

interface MovementFacts {
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

interface StatementFacts {
  user: string;
  hpc: string;
  project: string;
  from: number;
  to: number;
  time: { opening: number; closing: number; movements: MovementFacts[]; perDay: number; runsOutAt: number | null };
  space: { opening: number; closing: number; movements: MovementFacts[] };
}

export function publicStatement(statement: StatementFacts): Static<typeof StatementSchema> {
  const { time, space } = statement;
  return {
    user: statement.user,
    project_hpc: publicSystemName(statement.hpc),
    project_name: statement.project,
    from: toIsoTime(statement.from),
    to: toIsoTime(statement.to),
    time: {
      ...side(time, 'time'),
      burn_rate_per_day: time.perDay,
      runs_out_at: time.runsOutAt === null ? null : toIsoTime(time.runsOutAt),
    },
    space: side(space, 'space'),
  };
}

function side(account: { opening: number; closing: number; movements: MovementFacts[] }, resource: 'time' | 'space') {
  const { name: unit, size } = publicUnits[resource];
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
