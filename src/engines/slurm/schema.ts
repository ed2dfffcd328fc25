import Type, { type Static } from 'typebox';
import { batchKeys } from '../batch/settings.ts';
import { optionalText, section } from '../settings.ts';

const Site = section('Slurm options of the jobs. Those of a project override those of its system.', {
  partition: optionalText('Slurm partition.'),
  account: optionalText('Slurm account.'),
  qos: optionalText('Slurm quality of service.'),
  constraint: optionalText('Required node features.'),
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
