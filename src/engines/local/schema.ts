import Type, { type Static } from 'typebox';
import { flag, optionalText, positiveInt, section } from '../settings.ts';

export const localSchema = section('Runs jobs as processes on the host of Bursar.', {
  kind: Type.Literal('local', { default: 'local' }),
  cores: Type.Optional(
    Type.Integer({
      minimum: 1,
      description:
        'Cores for all jobs together. A job that requests more uses all of them. Default: the cores of the host.',
    }),
  ),
  memoryMb: positiveInt(4096, 'Maximum memory of one job, in MB.'),
  outputKb: positiveInt(100_000, 'Maximum output of one job on each of stdout and stderr, in KB.'),
  killGraceSeconds: positiveInt(5, 'Time between SIGTERM and SIGKILL when a job is stopped, in seconds.'),
  workspaceFolder: optionalText('Folder for workspaces. Default: `workspaces` in the data folder.', { pattern: '^/' }),
  runAs: optionalText(
    'Name of the account that jobs run as. It needs a group of its own, with no other member. Bursar must then run as ' +
      'root. Default: the account of Bursar.',
    { pattern: '^[A-Za-z0-9_][A-Za-z0-9_.-]*$' },
  ),
  acceptJobsFromTheNetwork: flag(
    false,
    'Must be true for Bursar to listen on an address other than loopback, because this engine runs code ' +
      'of the callers on the host of Bursar.',
  ),
});

export type LocalSettings = Static<typeof localSchema>;
