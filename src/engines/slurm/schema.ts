import Type, { type Static } from 'typebox';
import { batchKeys } from '../batch/settings.ts';
import { section } from '../settings.ts';

const Site = section('Slurm options of the jobs. Those of a project override those of its system.', {
  partition: Type.Optional(Type.String({ description: 'Slurm partition.' })),
  account: Type.Optional(Type.String({ description: 'Slurm account.' })),
  qos: Type.Optional(Type.String({ description: 'Slurm quality of service.' })),
  constraint: Type.Optional(Type.String({ description: 'Required node features.' })),
  extraOptions: Type.Optional(
    Type.Array(Type.String({ pattern: '^--?\\w' }), { description: 'Additional sbatch options, passed on unchanged.' }),
  ),
});

export const slurmSchema = section('Submits jobs to a Slurm cluster with its command line tools.', {
  kind: Type.Literal('slurm'),
  ...batchKeys('Slurm', 'SLURM_CONF'),
  accounting: Type.Enum(['sacct', 'completion', 'none'], {
    default: 'sacct',
    description:
      'Source of information about jobs that have left the queue: slurmdbd (`sacct`), the job completion file ' +
      '(`completion`), or no source (`none`).',
  }),
  site: Site,
});

export type SlurmSettings = Static<typeof slurmSchema>;
export type SlurmSite = Static<typeof Site>;
