import Type, { type Static } from 'typebox';
import { type AccountBalance, availableBalance, type ChargeUnit, remainingQuota } from '../domain/accounting/charge.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { bytesPerKb, publicUnits } from '../domain/units.ts';
import { account, createJsonWriter, namedObject, nullable, resource, time, toIsoTimeOrNull } from './fields.ts';

export const QuoteSchema = namedObject(
  'Quote',
  {
    project_hpc: Type.String(),
    project_name: Type.String(),
    runtime: Type.Number({ description: 'Runtime that would be granted, in hours.' }),
    cost: Type.Integer({ description: 'Charged seconds that would be put on hold.' }),
    accepted: Type.Boolean({ description: 'Whether the job would be accepted now.' }),
    reason: nullable(Type.String(), 'Why the job would not be accepted; null if it would.'),
    binding_account: nullable(account, 'The account with too little left.'),
    time_left: Type.Integer({ description: 'Charged seconds that would remain.' }),
    longest_runtime: Type.Number({ description: 'The longest runtime, in hours, that would fit now.' }),
  },
  {
    project_hpc: 'HPC_ONE',
    project_name: 'proj_hpc_one_01',
    runtime: 0.1,
    cost: 360,
    accepted: true,
    time_left: 17_999_640,
    longest_runtime: 48,
  },
);

export const UsageSchema = namedObject(
  'Usage',
  {
    user: Type.String(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    month: Type.String({ examples: ['2026-01'] }),
    jobs: Type.Integer({ description: 'Jobs that ended.' }),
    time_seconds: Type.Integer({ description: 'Charged seconds, minus refunds.' }),
  },
  {
    user: '301330',
    project_hpc: 'HPC_ONE',
    project_name: 'proj_hpc_one_01',
    month: '2026-01',
    jobs: 12,
    time_seconds: 4320,
  },
);

export const LedgerVerificationSchema = namedObject(
  'LedgerVerification',
  {
    balanced: Type.Boolean(),
    accounts: Type.Integer({ description: 'Number of accounts checked.' }),
    entries: Type.Integer({ description: 'Number of ledger entries added up.' }),
    problems: Type.Array(Type.String(), { description: 'Inconsistencies, ordered by account.' }),
  },
  { balanced: true, accounts: 12, entries: 345, problems: [] },
);

export const chargedUnit = Type.Enum(['core-seconds', 'node-seconds', 'seconds', 'KB'], {
  description: 'Of all amounts: `core-seconds`, `node-seconds` or `seconds`, as the system charges; `KB`.',
});

export const timeUnits = { core: 'core-seconds', node: 'node-seconds', wall: 'seconds' } as const satisfies Record<
  ChargeUnit,
  string
>;

const accountFields = {
  user: nullable(Type.String(), 'The user of a cap; null for the pool of the project.'),
  resource,
  unit: Type.Enum(['seconds', 'KB']),
  granted: Type.Number({ description: 'Amount that the account may use.' }),
  held: Type.Number({ description: 'Amount on hold for unfinished jobs.' }),
  used: Type.Number({ description: 'Amount that was charged; of space, the amount that is occupied.' }),
  available: Type.Number({ description: 'Amount for new jobs; negative after use beyond the grant.' }),
};
const exampleAccount = {
  granted: 18_000_000,
  held: 360,
  used: 4320,
  available: 17_995_320,
};

export const AccountSchema = namedObject('Account', accountFields, exampleAccount);

/** An account with its project and its period. */
export const ProjectAccountSchema = namedObject(
  'ProjectAccount',
  {
    ...accountFields,
    unit: chargedUnit,
    project_hpc: Type.String(),
    project_name: Type.String(),
    starts: nullable(time, 'Start of the period of a grant of time; null for space.'),
    ends: nullable(time, 'End of the period of a grant of time; null for space, and for a period without end.'),
  },
  {
    ...exampleAccount,
    project_hpc: 'HPC_ONE',
    project_name: 'proj_hpc_one_01',
    starts: '2026-01-01T00:00:00.000Z',
  },
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

interface ProjectAccountFields extends AccountFields {
  hpc: string;
  name: string;
  charge: ChargeUnit;
  startsAt: number | null;
  endsAt: number | null;
}

export function publicProjectAccount(account: ProjectAccountFields): Static<typeof ProjectAccountSchema> {
  return {
    ...publicAccount(account),
    unit: account.resource === 'time' ? timeUnits[account.charge] : publicUnits.space.name,
    project_hpc: publicSystemName(account.hpc),
    project_name: account.name,
    starts: toIsoTimeOrNull(account.startsAt),
    ends: toIsoTimeOrNull(account.endsAt),
  };
}

/** The public Quota object of the API contract (2.3). */
export const QuotaSchema = namedObject(
  'Quota',
  {
    id: Type.Integer({ description: 'Record number of the quota.' }),
    project: Type.Integer({ description: 'Record number of the project.' }),
    project_hpc: Type.String({ description: 'The HPC system, in upper case.', examples: ['HPC_ONE'] }),
    project_name: Type.String(),
    space_left: Type.Number({ description: 'Remaining space in KB (1,000 bytes).' }),
    time_left: Type.Integer({ description: "Remaining time in whole seconds of the system's charging unit." }),
    user: Type.String({ pattern: '^\\d+$', description: 'User identifier of the owner of the quota.' }),
  },
  {
    id: 1,
    project: 1,
    project_hpc: 'HPC_ONE',
    project_name: 'proj_hpc_one_01',
    space_left: 9_999_998.5,
    time_left: 17_999_640,
    user: '301330',
  },
);

export interface QuotaFields {
  id: number;
  userId: string;
  project: { id: number; hpc: string; name: string };
  time: { pool: AccountBalance; cap: AccountBalance };
  /** In bytes. */
  space: { pool: AccountBalance; cap: AccountBalance };
}

const writeQuota = createJsonWriter(QuotaSchema);

export function toQuotaJson(quota: QuotaFields): string {
  return writeQuota({
    id: quota.id,
    project: quota.project.id,
    project_hpc: publicSystemName(quota.project.hpc),
    project_name: quota.project.name,
    space_left: remainingQuota(quota.space.pool, quota.space.cap) / bytesPerKb,
    time_left: remainingQuota(quota.time.pool, quota.time.cap),
    user: quota.userId,
  });
}
