import Type, { type Static } from 'typebox';
import { positiveInteger, System, type SystemConfig, section } from './system-schema.ts';

const OidcProvider = Type.Object(
  {
    issuer: Type.String({ pattern: '^https?://', description: 'As it stands in the tokens; its keys are discovered.' }),
    audience: Type.String({ minLength: 1, description: 'The audience that a token for Bursar must name.' }),
    userClaim: Type.Optional(
      Type.String({
        description: 'A claim with a numeric user identifier. Left out: Bursar gives one at first sight.',
      }),
    ),
    adminClaim: Type.Optional(
      Type.String({ description: 'A claim, text or list, that makes administrators. Left out: nobody is one.' }),
    ),
    adminValue: Type.String({ default: 'bursar-admin', description: 'What `adminClaim` must be or contain.' }),
  },
  { additionalProperties: false },
);

/**
 * The one schema of the configuration. It validates the file, fills in what the file leaves out, and its
 * descriptions become docs/configuration.md. Unknown keys are errors.
 */
export const ConfigSchema = Type.Object(
  {
    server: section('How Bursar is reached.', {
      host: Type.String({ minLength: 1, default: '127.0.0.1', description: 'Address to listen on (`BURSAR_HOST`).' }),
      port: Type.Integer({
        minimum: 0,
        maximum: 65535,
        default: 8080,
        description: 'Port to listen on; 0 picks a free one (`BURSAR_PORT`).',
      }),
      requestTimeoutSeconds: positiveInteger(3600, 'How long a request may take to arrive, uploads included.'),
      drainSeconds: positiveInteger(20, 'How long requests under way get to finish at shutdown.'),
    }),
    data: Type.String({
      minLength: 1,
      default: './data',
      description: 'Folder for everything that Bursar keeps (`BURSAR_DATA`), relative to the working directory.',
    }),
    database: section('Where the books are kept.', {
      url: Type.String({
        default: 'sqlite:bursar.db',
        description:
          '`sqlite:<file>`, relative to the data folder; or `postgres://user:password@host:port/database`, see ' +
          '[postgresql.md](postgresql.md). `BURSAR_DATABASE_URL` wins over it.',
      }),
      connections: positiveInteger(10, 'PostgreSQL: the most connections that one Bursar opens.'),
      connectTimeoutSeconds: positiveInteger(
        10,
        'PostgreSQL: how long a connection may take, or the wait for a free one.',
      ),
      statementTimeoutSeconds: positiveInteger(
        30,
        'PostgreSQL: how long one statement may take, waiting for locks included.',
      ),
      leaseSeconds: positiveInteger(
        5,
        'PostgreSQL: how long the systems of a Bursar that is gone wait for another one.',
      ),
    }),
    auth: section('Who may call, beside the holders of tokens that Bursar issues.', {
      oidc: Type.Array(OidcProvider, {
        default: [],
        description: 'OpenID providers whose access tokens (JWT) are accepted.',
      }),
    }),
    ledger: section('How the books are kept.', {
      expiryNoticeDays: positiveInteger(14, 'How long before a grant ends its holders are told, in days.'),
      calendarSeconds: Type.Number({
        minimum: 0.1,
        default: 60,
        description: 'How often it is looked whether grants have ended, in seconds.',
      }),
    }),
    retention: section('How the files of finished jobs are deleted, in projects that have `retentionDays`.', {
      noticeDays: Type.Number({
        minimum: 0,
        default: 7,
        description: 'How long before, in days, the owner of a job is told; never less, whatever is configured later.',
      }),
      everySeconds: Type.Number({
        minimum: 0.1,
        default: 60,
        description: 'How often it is looked for such jobs, and for other things to be forgotten, in seconds.',
      }),
    }),
    limits: section('How much one caller may ask for, so that a loop of one does not starve the others.', {
      windowSeconds: positiveInteger(10, 'The window in which requests are counted.'),
      userRequests: positiveInteger(10_000, 'Requests of one user within the window.'),
      tokenRequests: positiveInteger(5000, 'Requests with one token within the window.'),
      addressRequests: positiveInteger(
        1000,
        'Requests without a valid token from one address within the window; behind a proxy that is the address of the proxy.',
      ),
      uploads: positiveInteger(200, 'Submissions of one user that may be arriving at the same time.'),
    }),
    events: section('How users are told what happens.', {
      keepDays: positiveInteger(90, 'How long events, and their deliveries to webhooks, are kept, in days.'),
      heartbeatSeconds: Type.Number({
        minimum: 0.05,
        default: 15,
        description: 'How often a stream that has nothing to tell shows that it is alive, in seconds.',
      }),
      checkSeconds: Type.Number({
        minimum: 0.05,
        default: 1,
        description: 'How often it is looked for events that another process wrote, in seconds.',
      }),
      listenersPerUser: positiveInteger(100, 'How many streams and waiting requests a user may have open at once.'),
    }),
    webhooks: section('Where users have their events sent to.', {
      perUser: positiveInteger(20, 'How many webhooks a user may have.'),
      allowNetworks: Type.Array(Type.String(), {
        default: [],
        description:
          'Networks (CIDR, such as `10.1.0.0/16`) that events may be sent to although they are not public. Whoever can ' +
          'register a webhook can make this host connect to them.',
      }),
      allowHttp: Type.Boolean({ default: false, description: 'Whether an address may be plain http.' }),
      nameServers: Type.Array(Type.String(), {
        default: [],
        description: 'DNS servers (`address` or `address:port`) to ask for names. Left out: those of the host.',
      }),
      timeoutSeconds: Type.Number({
        minimum: 0.1,
        default: 10,
        description: 'How long one attempt may take, redirects included, in seconds.',
      }),
      atOnce: positiveInteger(32, 'How many receivers are served at a time.'),
      retrySeconds: Type.Array(Type.Number({ minimum: 0 }), {
        default: [5, 300, 1500, 5400, 10_800, 18_000, 14_400, 21_600, 14_400],
        description: 'How long to wait after each attempt that failed, in seconds; after the last one it is given up.',
      }),
      disableAfterHours: Type.Number({
        exclusiveMinimum: 0,
        default: 120,
        description: 'After how long without any success a webhook is disabled, in hours.',
      }),
    }),
    log: section('What is logged, as JSON lines on standard error.', {
      level: Type.Union(
        ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'].map((level) => Type.Literal(level)),
        { default: 'info', description: 'The least severe messages to log.' },
      ),
    }),
    submissions: section('What a submission may bring.', {
      maxBodyKb: positiveInteger(2_000_000, 'The largest zip, in KB.'),
      maxEntries: positiveInteger(20_000, 'The most files and folders in a zip.'),
      maxUnpackedKb: positiveInteger(10_000_000, 'The largest total size when unpacked, in KB.'),
      maxRatio: positiveInteger(200, 'How many times larger than packed it may get; above it is taken for a bomb.'),
    }),
    systems: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,31}$' }), System, {
      additionalProperties: false,
      minProperties: 1,
      description: 'The HPC systems, by their names in paths.',
    }),
  },
  { additionalProperties: false },
);

export type Config = Omit<Static<typeof ConfigSchema>, 'systems'> & { systems: Record<string, SystemConfig> };
export type OidcConfig = Static<typeof OidcProvider>;
