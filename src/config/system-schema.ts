import Type, { type Static } from 'typebox';
import type { EngineSettings } from '../engines/definition.ts';
import { engines } from '../engines/registry.ts';
import { flag, optionalText, positiveInt, section } from '../engines/settings.ts';

const stageName = (name: string) => Type.String({ minLength: 1, maxLength: 32, default: name });

const intervalSeconds = (seconds: number, description: string) =>
  Type.Number({ minimum: 0.1, default: seconds, description });

const Stages = section('Stage names that callers see for the states of a job.', {
  queued: stageName('QUEUED'),
  running: stageName('RUNNING'),
  succeeded: stageName('SUCCESSFUL'),
  failed: stageName('FAILED'),
  cancelled: stageName('CANCELED'),
  deleted: stageName('DELETED'),
});

const Limits = section('Maximum resources of one job.', {
  nodes: positiveInt(64, 'Nodes.'),
  coresPerNode: positiveInt(128, 'Cores on each node.'),
  runtimeHours: Type.Number({ exclusiveMinimum: 0, default: 48, description: 'Hours of wall-clock time.' }),
  files: positiveInt(
    200_000,
    'Files and folders in the workspace. A job that has more is ended as `output_exceeded`; lists and zips of more fail.',
  ),
});

const ToolParameter = Type.Object(
  {
    type: Type.Enum(['string', 'integer', 'number', 'words'], {
      default: 'string',
      description:
        'Type of the value. `words`: up to 64 words, as text that is split as a shell splits it, or as a list. Each ' +
        'word becomes an argument.',
    }),
    required: flag(false, 'Whether the Payload must contain it.'),
    default: Type.Optional(
      Type.Union([Type.String(), Type.Number()], { description: 'Value if the Payload does not contain it.' }),
    ),
    pattern: optionalText(
      'For strings and words: a regular expression that must match the whole value, or every word.',
    ),
    values: Type.Optional(
      Type.Array(Type.String(), { minItems: 1, description: 'For strings and words: the allowed values.' }),
    ),
    allowOptions: flag(
      false,
      'For strings and words: whether the value, or a word, may begin with `-`. Set it only if the program takes no ' +
        'options at that place, or if all of its options are safe: many programs have an option that runs a command.',
    ),
    min: Type.Optional(Type.Number({ description: 'For numbers: the minimum.' })),
    max: Type.Optional(Type.Number({ description: 'For numbers: the maximum.' })),
  },
  { additionalProperties: false },
);

const Tool = Type.Object(
  {
    command: Type.Array(Type.String(), {
      minItems: 1,
      description:
        'Program and arguments, run without a shell. `{name}` is replaced by the value of that parameter; the name of ' +
        'a parameter of type `words` must be an argument by itself.',
    }),
    entry: optionalText('File that the zip must contain, because the tool reads it first.'),
    parameters: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,31}$' }), ToolParameter, {
      additionalProperties: false,
      default: {},
      description: 'Payload fields of this tool, in addition to the common ones.',
    }),
  },
  { additionalProperties: false },
);

const Grant = section('Grant of each new member.', {
  timeSeconds: Type.Integer({ minimum: 0, default: 18_000_000, description: 'Time, in seconds of the charging unit.' }),
  spaceKb: Type.Integer({ minimum: 0, default: 10_000_000, description: 'Space, in KB (1,000 bytes).' }),
});

const Project = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$', description: 'Name in URL paths.' }),
    autoJoin: flag(true, 'Whether every user becomes a member at the first request.'),
    grant: Grant,
    retentionDays: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description: 'After how many days the files of a finished job are deleted. Default: never.',
      }),
    ),
    unfinishedJobs: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Maximum number of unfinished jobs in this project. Default: `limits.projectUnfinishedJobs`.',
      }),
    ),
    site: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'Scheduler options of the jobs of this project. They override those of `engine.site`, and have the same keys.',
        },
      ),
    ),
  },
  { additionalProperties: false },
);

const Engine = Type.Object(
  {
    kind: Type.Enum(Object.keys(engines), {
      default: Object.keys(engines)[0],
      description: `${describeEngines()} The other keys of each kind are listed below.`,
    }),
  },
  { additionalProperties: true, default: {} },
);

function describeEngines(): string {
  return Object.entries(engines)
    .map(([kind, { schema }]) => `\`${kind}\`: ${schema.description}`)
    .join(' ');
}

export const System = Type.Object(
  {
    kind: Type.Enum(['batch', 'tool'], {
      description: 'Required Payload field: `command` (`batch`), or the name of a `tool` (`tool`).',
    }),
    engine: Engine,
    isolation: Type.Enum(['auto', 'bubblewrap', 'none'], {
      default: 'auto',
      description:
        'Whether each job is shut in, so that it cannot reach the files of other jobs, of the account and of Bursar: ' +
        '`bubblewrap`, with that program; `none`, not at all; `auto`, with bubblewrap where it works, otherwise not at ' +
        'all, with a warning. See [security.md](security.md).',
    }),
    readOnly: Type.Array(Type.String({ pattern: '^/' }), {
      default: [],
      description:
        'With isolation: further folders that jobs can read, in addition to `/usr` and `/etc`, such as `/opt` or a tree ' +
        'of modules. Bursar, its data and the home of its account stay hidden.',
    }),
    network: flag(
      true,
      'With isolation: whether jobs have the network of the host. It includes its abstract Unix sockets, through which a ' +
        'person with another account on the same host can hand his own job an open folder of the host, and so undo the ' +
        'isolation. Set it to false where users can log in or run jobs under accounts of their own.',
    ),
    scheduler: flag(
      false,
      'On a cluster: whether isolated jobs can use the commands of its scheduler. Through them a job can leave its ' +
        'isolation, so that the system counts as not isolated.',
    ),
    pollIntervalSeconds: intervalSeconds(
      1,
      'Poll interval while jobs change, in seconds. One poll covers all jobs of the system.',
    ),
    maxPollIntervalSeconds: intervalSeconds(
      30,
      'Maximum poll interval, used while nothing changes or polls fail, in seconds.',
    ),
    measureIntervalSeconds: intervalSeconds(
      30,
      'How often the files of all running jobs are measured, in seconds, to end jobs that exceed `limits.files` or the ' +
        'space that their quota has left. A measurement that takes long is repeated less often.',
    ),
    submittedJobsPerUser: positiveInt(
      1000,
      'Maximum number of jobs of one user that the engine has at the same time; the others wait in Bursar. On a cluster, set ' +
        'it well below the number of jobs that the account may have there, so that one user cannot fill the queue; the ' +
        'doctor checks that.',
    ),
    stages: Stages,
    jobIdPrefix: optionalText(
      'Job identifiers are `<prefix>-<tool>-<32 upper-case hexadecimal digits>`. Default: an upper-case UUID.',
      { pattern: '^[A-Z][A-Z0-9_-]{0,31}$' },
    ),
    charge: Type.Enum(['core', 'node', 'wall'], {
      default: 'core',
      description: 'The charging unit: core-seconds, node-seconds, or seconds of wall-clock time.',
    }),
    limits: Limits,
    runtimePolicy: Type.Enum(['reject', 'clamp'], {
      default: 'reject',
      description: 'Whether a runtime over the limit is rejected (`reject`), or reduced to the limit (`clamp`).',
    }),
    defaultRuntimeHours: Type.Number({
      exclusiveMinimum: 0,
      default: 0.5,
      description: 'Runtime of a job whose Payload does not set it, in hours. It then has one node and one core.',
    }),
    projects: Type.Array(Project, { minItems: 1, description: 'The projects. The first one is the default project.' }),
    tools: Type.Record(Type.String({ pattern: '^[A-Z][A-Z0-9_-]{0,31}$' }), Tool, {
      additionalProperties: false,
      default: {},
      description: 'The tools of a system of kind `tool`.',
    }),
  },
  { additionalProperties: false },
);

export type SystemConfig = Omit<Static<typeof System>, 'engine'> & { engine: EngineSettings };
