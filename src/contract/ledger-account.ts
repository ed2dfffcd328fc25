import Type, { type Static } from 'typebox';
import type { ChargeUnit } from '../domain/accounting/price.ts';
import { type AccountBalance, availableBalance } from '../domain/accounting/settlement.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { publicUnits } from '../domain/units.ts';
import { nullableString, nullableTime, resource } from './fields.ts';
import { toIsoTimeOrNull } from './json-format.ts';

export const chargedUnit = Type.Enum(['core-seconds', 'node-seconds', 'seconds', 'KB'], {
  description: 'Of all amounts: `core-seconds`, `node-seconds` or `seconds`, as the system charges; `KB`.',
});

export const timeUnits = { core: 'core-seconds', node: 'node-seconds', wall: 'seconds' } as const satisfies Record<
  ChargeUnit,
  string
>;

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
