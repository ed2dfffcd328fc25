import Type from 'typebox';
import { type AccountBalance, remainingQuota } from '../domain/accounting/settlement.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { bytesPerKb } from '../domain/units.ts';
import { createJsonWriter, namedObject } from './fields.ts';

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
