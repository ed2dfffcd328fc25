import Type, { type Static, type TProperties } from 'typebox';

/** A group of keys. Leaving the whole group out gives each key its default. */
export function section<Fields extends TProperties>(description: string, fields: Fields) {
  return Type.Object(fields, { description, additionalProperties: false, default: {} });
}

export const positiveInt = (defaultValue: number, description: string) =>
  Type.Integer({ minimum: 1, default: defaultValue, description });

const stageName = (name: string) => Type.String({ minLength: 1, maxLength: 32, default: name });

const Stages = section('Stage names that callers see for the states of a job.', {
  queued: stageName('QUEUED'),
  running: stageName('RUNNING'),
  succeeded: stageName('SUCCESSFUL'),
  failed: stageName('FAILED'),
  cancelled: stageName('CANCELED'),
  deleted: stageName('DELETED'),
});

const JobId = section('Format of job identifiers.', {
  style: Type.Union([Type.Literal('uuid'), Type.Literal('prefixed')], {
    default: 'uuid',
    description: '`uuid`: an upper-case UUID. `prefixed`: `<prefix>-<tool>-<32 upper-case hexadecimal digits>`.',
  }),
  prefix: Type.String({
    pattern: '^[A-Z][A-Z0-9_-]{0,31}$',
    default: 'BURSAR-JOB',
    description: 'Prefix for `style: prefixed`.',
  }),
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

const Defaults = section('Resources of a job whose Payload does not set them.', {
  nodes: positiveInt(1, 'Nodes.'),
  coresPerNode: positiveInt(1, 'Cores on each node.'),
  runtimeHours: Type.Number({ exclusiveMinimum: 0, default: 0.5, description: 'Hours of wall-clock time.' }),
});

const ToolParameter = Type.Object(
  {
    type: Type.Union([Type.Literal('string'), Type.Literal('integer'), Type.Literal('number'), Type.Literal('words')], {
      default: 'string',
      description:
        'Type of the value. `words`: up to 64 words, as text that is split as a shell splits it, or as a list. Each ' +
        'word becomes an argument.',
    }),
    required: Type.Boolean({ default: false, description: 'Whether the Payload must contain it.' }),
    default: Type.Optional(
      Type.Union([Type.String(), Type.Number()], { description: 'Value if the Payload does not contain it.' }),
    ),
    pattern: Type.Optional(
      Type.String({
        description: 'For strings and words: a regular expression that must match the whole value, or every word.',
      }),
    ),
    values: Type.Optional(
      Type.Array(Type.String(), { minItems: 1, description: 'For strings and words: the allowed values.' }),
    ),
    allowOptions: Type.Boolean({
      default: false,
      description:
        'For strings and words: whether the value, or a word, may begin with `-`. Set it only if the program takes no ' +
        'options at that place, or if all of its options are safe: many programs have an option that runs a command.',
    }),
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
    entry: Type.Optional(
      Type.String({ description: 'File that the zip must contain, because the tool reads it first.' }),
    ),
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

const Site = section('Slurm options of the jobs. Those of a project override those of its system.', {
  partition: Type.Optional(Type.String({ description: 'Slurm partition.' })),
  account: Type.Optional(Type.String({ description: 'Slurm account.' })),
  qos: Type.Optional(Type.String({ description: 'Slurm quality of service.' })),
  constraint: Type.Optional(Type.String({ description: 'Required node features.' })),
  extraOptions: Type.Optional(
    Type.Array(Type.String({ pattern: '^--?\\w' }), { description: 'Additional sbatch options, passed on unchanged.' }),
  ),
});

const Project = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$', description: 'Name in URL paths.' }),
    autoJoin: Type.Boolean({ default: true, description: 'Whether every user becomes a member at the first request.' }),
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
        description: 'Maximum number of unfinished jobs in this project. Default: `limits.unfinishedJobs.project`.',
      }),
    ),
    site: Type.Optional(
      Type.Object(Site.properties, {
        additionalProperties: false,
        description: 'Slurm options of the jobs of this project.',
      }),
    ),
  },
  { additionalProperties: false },
);

const LocalEngine = section('Runs jobs as processes on the host of Bursar.', {
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
  workspaceFolder: Type.Optional(
    Type.String({ pattern: '^/', description: 'Folder for workspaces. Default: `workspaces` in the data folder.' }),
  ),
  runAs: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_][A-Za-z0-9_.-]*$',
      description:
        'Name of the account that jobs run as. It needs a group of its own, with no other member. Bursar must then run as ' +
        'root. Default: the account of Bursar.',
    }),
  ),
  acceptJobsFromTheNetwork: Type.Boolean({
    default: false,
    description:
      'Must be true for Bursar to listen on an address other than loopback, because this engine runs code ' +
      'of the callers on the host of Bursar.',
  }),
});

const Ssh = Type.Object(
  {
    host: Type.String({ pattern: '^[\\w.:-]+$', description: 'Host name, or an alias from ssh_config.' }),
    user: Type.Optional(Type.String({ pattern: '^[\\w.-]+$', description: 'User name of the service account.' })),
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65535 })),
    configFile: Type.Optional(
      Type.String({ description: 'Path of an ssh_config file. Default: that of the user who runs Bursar.' }),
    ),
    knownHostsFile: Type.Optional(Type.String({ description: 'Path of a known_hosts file with the key of the host.' })),
    identityFile: Type.Optional(Type.String({ description: 'Path of the private key.' })),
    connectTimeoutSeconds: positiveInt(10, 'Connection timeout, in seconds.'),
  },
  { additionalProperties: false, description: 'Runs the Slurm commands over ssh. Default: on the host of Bursar.' },
);

const SlurmEngine = section('Submits jobs to a Slurm cluster with its command line tools.', {
  kind: Type.Literal('slurm'),
  ssh: Type.Optional(Ssh),
  workspaceFolder: Type.Optional(
    Type.String({
      pattern: '^/',
      description: 'Folder for workspaces; the path must be the same on all nodes. Default: in the data folder.',
    }),
  ),
  environment: Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String(), {
    additionalProperties: false,
    default: {},
    description: 'Environment variables of the Slurm commands, such as `SLURM_CONF`.',
  }),
  accounting: Type.Enum(['sacct', 'completion', 'none'], {
    default: 'sacct',
    description:
      'Source of information about jobs that have left the queue: slurmdbd (`sacct`), the job completion file ' +
      '(`completion`), or no source (`none`).',
  }),
  commandTimeoutSeconds: positiveInt(
    30,
    'Timeout of one Slurm command and, with `ssh`, of a request for files or logs until their first byte, in seconds.',
  ),
  missingAlarmSeconds: positiveInt(
    900,
    'After how many seconds Bursar raises an alarm about a job that Slurm does not report.',
  ),
  site: Site,
});

/** The settings of each kind of engine. */
export const engineSchemas = { local: LocalEngine, slurm: SlurmEngine };

const Engine = Type.Object(
  {
    kind: Type.Enum(['local', 'slurm'], {
      default: 'local',
      description:
        '`local` runs processes on this host, `slurm` submits to a Slurm cluster. The other keys of each kind are listed below.',
    }),
  },
  { additionalProperties: true, default: {} },
);

export const System = Type.Object(
  {
    kind: Type.Union([Type.Literal('batch'), Type.Literal('tool')], {
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
    network: Type.Boolean({
      default: true,
      description:
        'With isolation: whether jobs have the network of the host. It includes its abstract Unix sockets, through which a ' +
        'person with another account on the same host can hand his own job an open folder of the host, and so undo the ' +
        'isolation. Set it to false where users can log in or run jobs under accounts of their own.',
    }),
    scheduler: Type.Boolean({
      default: false,
      description:
        'Slurm only: whether isolated jobs can use the commands of Slurm. Through them a job can leave its isolation, so ' +
        'that the system counts as not isolated.',
    }),
    watchSeconds: Type.Number({
      minimum: 0.1,
      default: 1,
      description: 'Poll interval while jobs change, in seconds. One poll covers all jobs of the system.',
    }),
    idleWatchSeconds: Type.Number({
      minimum: 0.1,
      default: 30,
      description: 'Maximum poll interval, used while nothing changes or polls fail, in seconds.',
    }),
    measureSeconds: Type.Number({
      minimum: 0.1,
      default: 30,
      description:
        'How often the files of all running jobs are measured, in seconds, to end jobs that exceed `limits.files` or the ' +
        'space that their quota has left. A measurement that takes long is repeated less often.',
    }),
    delayAlarmSeconds: Type.Number({
      minimum: 0,
      default: 300,
      description:
        'After how many seconds of transient errors a job that cannot be submitted is reported: to its owner, at `/hpc/`, ' +
        '`/readyz` and `/metrics`. A permanent error is reported at once.',
    }),
    submittedJobsPerUser: positiveInt(
      1000,
      'Maximum number of jobs of one user that the engine has at the same time; the others wait in Bursar. With Slurm, set ' +
        'it well below the `MaxSubmitJobs` of the account, so that one user cannot fill the queue; the doctor checks that.',
    ),
    stages: Stages,
    jobId: JobId,
    charge: Type.Union([Type.Literal('core'), Type.Literal('node'), Type.Literal('wall')], {
      default: 'core',
      description: 'The charging unit: core-seconds, node-seconds, or seconds of wall-clock time.',
    }),
    limits: Limits,
    runtimePolicy: Type.Union([Type.Literal('reject'), Type.Literal('clamp')], {
      default: 'reject',
      description: 'Whether a runtime over the limit is rejected (`reject`), or reduced to the limit (`clamp`).',
    }),
    defaults: Defaults,
    projects: Type.Array(Project, { minItems: 1, description: 'The projects. The first one is the default project.' }),
    tools: Type.Record(Type.String({ pattern: '^[A-Z][A-Z0-9_-]{0,31}$' }), Tool, {
      additionalProperties: false,
      default: {},
      description: 'The tools of a system of kind `tool`.',
    }),
  },
  { additionalProperties: false },
);

export type LocalEngineConfig = Static<typeof LocalEngine>;
export type SlurmEngineConfig = Static<typeof SlurmEngine>;
export type SystemConfig = Omit<Static<typeof System>, 'engine'> & { engine: LocalEngineConfig | SlurmEngineConfig };
