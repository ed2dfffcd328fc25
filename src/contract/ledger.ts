import Type, { type Static } from 'typebox';
import type { ChargeUnit } from '../domain/accounting/price.ts';
import { type AccountBalance, availableBalance } from '../domain/accounting/settlement.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { publicUnits } from '../domain/units.ts';
import { account, nullableString, nullableTime, resource, timestamp } from './fields.ts';
import { toIsoTime, toIsoTimeOrNull } from './json-format.ts';

export const QuoteSchema = Type.Object(
  {
    project_hpc: Type.String(),
    project_name: Type.String(),
    runtime: Type.Number({ description: 'Runtime that would be granted, in hours.' }),
    cost: Type.Integer({ description: 'Charged seconds that would be put on hold.' }),
    accepted: Type.Boolean({ description: 'Whether the job would be accepted now.' }),
    reason: nullableString('Why the job would not be accepted; null if it would.'),
    binding_account: Type.Union([account, Type.Null()], { description: 'The account with too little left.' }),
    time_left: Type.Integer({ description: 'Charged seconds that would remain.' }),
    longest_runtime: Type.Number({ description: 'The longest runtime, in hours, that would fit now.' }),
  },
  {
    $id: 'Quote',
    additionalProperties: false,
    examples: [
      {
        project_hpc: 'HPC_ONE',
        project_name: 'proj_hpc_one_01',
        runtime: 0.1,
        cost: 360,
        accepted: true,
        reason: null,
        binding_account: null,
        time_left: 17_999_640,
        longest_runtime: 48,
      },
    ],
  },
);

const chargedUnit = Type.Enum(['core-seconds', 'node-seconds', 'seconds', 'KB'], {
  description: 'Of all amounts: `core-seconds`, `node-seconds` or `seconds`, as the system charges; `KB`.',
});

const Movement = Type.Object({
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
  job_id: nullableString('The job that caused the movement; null for other causes.'),
  actor: Type.String(),
  reason: Type.String(),
});

const accountStatement = {
  unit: chargedUnit,
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
      runs_out_at: nullableTime('When the balance reaches zero at this rate; null if it does not.'),
    }),
    space: Type.Object(accountStatement),
  },
  {
    $id: 'Statement',
    additionalProperties: false,
    examples: [
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
    ],
  },
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
  {
    $id: 'Usage',
    additionalProperties: false,
    examples: [
      {
        user: '301330',
        project_hpc: 'HPC_ONE',
        project_name: 'proj_hpc_one_01',
        month: '2026-01',
        jobs: 12,
        time_seconds: 4320,
      },
    ],
  },
);

const accountFields = {
  user: nullableString('The user of a cap; null for the pool of the project.'),
  resource,
  unit: Type.Enum(['seconds', 'KB']),
  granted: Type.Number({ description: 'Amount that the account may use.' }),
  held: Type.Number({ description: 'Amount on hold for unfinished jobs.' }),
  used: Type.Number({ description: 'Amount that was charged; of space, the amount that is occupied.' }),
  available: Type.Number({ description: 'Amount for new jobs; negative after use beyond the grant.' }),
};
const exampleAccount = {
  user: null,
  resource: 'time',
  unit: 'seconds',
  granted: 18_000_000,
  held: 360,
  used: 4320,
  available: 17_995_320,
};

export const AccountSchema = Type.Object(accountFields, {
  $id: 'Account',
  additionalProperties: false,
  examples: [exampleAccount],
});

/** An account with its project and its period. */
export const ProjectAccountSchema = Type.Object(
  {
    ...accountFields,
    unit: chargedUnit,
    project_hpc: Type.String(),
    project_name: Type.String(),
    starts: nullableTime('Start of the period of a grant of time; null for space.'),
    ends: nullableTime('End of the period of a grant of time; null for space, and for a period without end.'),
  },
  {
    $id: 'ProjectAccount',
    additionalProperties: false,
    examples: [
      {
        ...exampleAccount,
        unit: 'core-seconds',
        project_hpc: 'HPC_ONE',
        project_name: 'proj_hpc_one_01',
        starts: '2026-01-01T00:00:00.000Z',
        ends: null,
      },
    ],
  },
);

export const LedgerVerificationSchema = Type.Object(
  {
    balanced: Type.Boolean(),
    accounts: Type.Integer({ description: 'Number of accounts checked.' }),
    entries: Type.Integer({ description: 'Number of ledger entries added up.' }),
    problems: Type.Array(Type.String(), { description: 'Inconsistencies, ordered by account.' }),
  },
  {
    $id: 'LedgerProof',
    additionalProperties: false,
    examples: [{ balanced: true, accounts: 12, entries: 345, problems: [] }],
  },
);

const timeUnits = { core: 'core-seconds', node: 'node-seconds', wall: 'seconds' } as const satisfies Record<
  ChargeUnit,
  string
>;

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

interface ProjectAccountFields extends AccountFields {
  hpc: string;
  name: string;
  charge: ChargeUnit;
  starts_at: number | null;
  ends_at: number | null;
}

export function publicProjectAccount(account: ProjectAccountFields): Static<typeof ProjectAccountSchema> {
  return {
    ...publicAccount(account),
    unit: account.resource === 'time' ? timeUnits[account.charge] : publicUnits.space.name,
    project_hpc: publicSystemName(account.hpc),
    project_name: account.name,
    starts: toIsoTimeOrNull(account.starts_at),
    ends: toIsoTimeOrNull(account.ends_at),
  };
}

interface MovementFields {
  id: number;
  at: number;
  kind: Static<typeof Movement>['kind'];
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

function publicAccountStatement(
  account: AccountStatementFields,
  unit: Static<typeof StatementSchema>['space']['unit'],
  size: number,
) {
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
