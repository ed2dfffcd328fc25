import Type, { type Static, type TProperties } from 'typebox';

/** A group of keys. Leaving the whole group out gives each key its default. */
export function section<Fields extends TProperties>(description: string, fields: Fields) {
  return Type.Object(fields, { description, additionalProperties: false, default: {} });
}

export const positiveInteger = (value: number, description: string) =>
  Type.Integer({ minimum: 1, default: value, description });

const word = (text: string) => Type.String({ minLength: 1, maxLength: 32, default: text });

const Stages = section('The words in which the system tells where a job stands.', {
  queued: word('QUEUED'),
  running: word('RUNNING'),
  succeeded: word('SUCCESSFUL'),
  failed: word('FAILED'),
  cancelled: word('CANCELED'),
  deleted: word('DELETED'),
});

const JobId = section('How the identifiers of the jobs look.', {
  style: Type.Union([Type.Literal('uuid'), Type.Literal('prefixed')], {
    default: 'uuid',
    description: '`uuid`: an upper-case UUID. `prefixed`: `<prefix>-<tool>-<32 upper-case hexadecimal digits>`.',
  }),
  prefix: Type.String({
    pattern: '^[A-Z][A-Z0-9_-]{0,31}$',
    default: 'BURSAR-JOB',
    description: 'The text in front, with `style: prefixed`.',
  }),
});

const Limits = section('The most that one job may ask for.', {
  nodes: positiveInteger(64, 'Nodes.'),
  coresPerNode: positiveInteger(128, 'Cores on each node.'),
  runtimeHours: Type.Number({ exclusiveMinimum: 0, default: 48, description: 'Hours of wall-clock time.' }),
});

const Defaults = section('What a job gets that does not say.', {
  nodes: positiveInteger(1, 'Nodes.'),
  coresPerNode: positiveInteger(1, 'Cores on each node.'),
  runtimeHours: Type.Number({ exclusiveMinimum: 0, default: 0.5, description: 'Hours of wall-clock time.' }),
});

const ToolParameter = Type.Object(
  {
    type: Type.Union([Type.Literal('string'), Type.Literal('integer'), Type.Literal('number')], {
      default: 'string',
      description: 'What kind of value it takes.',
    }),
    required: Type.Boolean({ default: false, description: 'Whether a job must give it.' }),
    default: Type.Optional(
      Type.Union([Type.String(), Type.Number()], { description: 'The value of a job that does not give it.' }),
    ),
    pattern: Type.Optional(Type.String({ description: 'A regular expression that the whole text must match.' })),
    values: Type.Optional(Type.Array(Type.String(), { minItems: 1, description: 'The only texts allowed.' })),
    min: Type.Optional(Type.Number({ description: 'The smallest number allowed.' })),
    max: Type.Optional(Type.Number({ description: 'The largest number allowed.' })),
  },
  { additionalProperties: false },
);

const Tool = Type.Object(
  {
    command: Type.Array(Type.String(), {
      minItems: 1,
      description: 'The program and its arguments; `{name}` stands for a parameter. No shell is involved.',
    }),
    entry: Type.Optional(Type.String({ description: 'The file of the zip that the tool starts from.' })),
    parameters: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,31}$' }), ToolParameter, {
      additionalProperties: false,
      default: {},
      description: 'Fields of the Payload that this tool takes beside the common ones.',
    }),
  },
  { additionalProperties: false },
);

const Grant = section('What each member gets when joining.', {
  timeSeconds: Type.Integer({ minimum: 0, default: 18_000_000, description: 'Seconds of the charging unit.' }),
  spaceKb: Type.Integer({ minimum: 0, default: 10_000_000, description: 'KB (1,000 bytes) of space.' }),
});

const Site = section('Where jobs go on the cluster; what a project says wins over what its system says.', {
  partition: Type.Optional(Type.String({ description: 'Partition.' })),
  account: Type.Optional(Type.String({ description: 'Account.' })),
  qos: Type.Optional(Type.String({ description: 'Quality of service.' })),
  constraint: Type.Optional(Type.String({ description: 'Node features that are required.' })),
  extraOptions: Type.Optional(
    Type.Array(Type.String({ pattern: '^--?\\w' }), { description: 'Further options of sbatch, as they are.' }),
  ),
});

const Project = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$', description: 'As in paths.' }),
    autoJoin: Type.Boolean({ default: true, description: 'Whether every user is a member from first sight.' }),
    grant: Grant,
    retentionDays: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description: 'After how many days the files of a finished job are deleted. Left out: never.',
      }),
    ),
    site: Type.Optional(
      Type.Object(Site.properties, { additionalProperties: false, description: 'Where its jobs go on a cluster.' }),
    ),
  },
  { additionalProperties: false },
);

const LocalEngine = section('Jobs are processes on the host that Bursar runs on.', {
  kind: Type.Literal('local', { default: 'local' }),
  cores: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Slots for jobs; a job that asks for more takes all. Left out: the cores of the machine.',
    }),
  ),
  memoryMb: positiveInteger(4096, 'The most memory that one job may use, in MB.'),
  outputKb: positiveInteger(100_000, 'The most that one job may print, in KB, on each of stdout and stderr.'),
  killGraceSeconds: positiveInteger(5, 'How long a job that must stop gets between SIGTERM and SIGKILL.'),
  acceptJobsFromTheNetwork: Type.Boolean({
    default: false,
    description:
      'Must be true for Bursar to listen on an address other than loopback: ' +
      'this engine runs the code of its callers on its own host.',
  }),
});

const Ssh = Type.Object(
  {
    host: Type.String({ pattern: '^[\\w.:-]+$', description: "Host, or its name in the operator's own ssh_config." }),
    user: Type.Optional(Type.String({ pattern: '^[\\w.-]+$', description: 'The service account.' })),
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65535 })),
    configFile: Type.Optional(Type.String({ description: "Another ssh_config than the operator's own." })),
    knownHostsFile: Type.Optional(Type.String({ description: 'Where the key of the host is pinned.' })),
    identityFile: Type.Optional(Type.String({ description: 'The private key to log in with.' })),
    connectTimeoutSeconds: positiveInteger(10, 'How long a connection may take.'),
  },
  { additionalProperties: false, description: 'How the cluster is reached; left out: its commands run on this host.' },
);

const SlurmEngine = section('Jobs go to a Slurm cluster, by its command line.', {
  kind: Type.Literal('slurm'),
  ssh: Type.Optional(Ssh),
  workspaceFolder: Type.Optional(
    Type.String({
      pattern: '^/',
      description: 'Folder for workspaces, as the nodes of the cluster see it. Left out: in the data folder.',
    }),
  ),
  environment: Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String(), {
    additionalProperties: false,
    default: {},
    description: 'Variables for the commands of Slurm, such as `SLURM_CONF`.',
  }),
  accounting: Type.Enum(['sacct', 'completion', 'none'], {
    default: 'sacct',
    description:
      'Who knows the jobs that have left the queue: slurmdbd (`sacct`), a file of completed jobs (`completion`), ' +
      'or nobody (`none`).',
  }),
  commandTimeoutSeconds: positiveInteger(30, 'How long one command of Slurm may take.'),
  missingAlarmSeconds: positiveInteger(900, 'After how long a job that Slurm does not mention raises an alarm.'),
  site: Site,
});

/** What an engine can be told, by its kind. */
export const engineSchemas = { local: LocalEngine, slurm: SlurmEngine };

const Engine = Type.Object(
  {
    kind: Type.Enum(['local', 'slurm'], {
      default: 'local',
      description: 'What runs the jobs: processes on this host, or a Slurm cluster. Its other keys are below.',
    }),
  },
  { additionalProperties: true, default: {} },
);

export const System = Type.Object(
  {
    kind: Type.Union([Type.Literal('batch'), Type.Literal('tool')], {
      description: '`batch` takes a `command`, `tool` takes the name of a `tool`.',
    }),
    engine: Engine,
    watchSeconds: Type.Number({
      minimum: 0.1,
      default: 1,
      description: 'How often the engine is asked about all its jobs at once, while there is something to wait for.',
    }),
    idleWatchSeconds: Type.Number({
      minimum: 0.1,
      default: 30,
      description: 'How often at the least, when nothing is going on or the engine is in trouble.',
    }),
    stages: Stages,
    jobId: JobId,
    charge: Type.Union([Type.Literal('core'), Type.Literal('node'), Type.Literal('wall')], {
      default: 'core',
      description: 'The charging unit: core-seconds, node-seconds, or seconds of wall-clock time.',
    }),
    limits: Limits,
    runtimePolicy: Type.Union([Type.Literal('reject'), Type.Literal('clamp')], {
      default: 'reject',
      description: 'What happens to a runtime over the limit: refused, or cut down to the limit.',
    }),
    defaults: Defaults,
    projects: Type.Array(Project, { minItems: 1, description: 'The first one is the default project.' }),
    tools: Type.Record(Type.String({ pattern: '^[A-Z][A-Z0-9_-]{0,31}$' }), Tool, {
      additionalProperties: false,
      default: {},
      description: 'The catalogue of a tool system.',
    }),
  },
  { additionalProperties: false },
);

export type LocalEngineConfig = Static<typeof LocalEngine>;
export type SlurmEngineConfig = Static<typeof SlurmEngine>;
export type SystemConfig = Omit<Static<typeof System>, 'engine'> & { engine: LocalEngineConfig | SlurmEngineConfig };
