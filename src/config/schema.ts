import Type, { type Static } from 'typebox';
import { flag, optionalText, positiveInt, section } from '../engines/settings.ts';
import { OidcProvider } from './oidc-schema.ts';
import type { ResolvedReferences, referencesKey } from './references.ts';
import { System, type SystemConfig } from './system-schema.ts';

const port = (description: string, options: { default?: number } = {}) =>
  Type.Integer({ minimum: 0, maximum: 65535, ...options, description });
const sampleRatio = (description: string) => Type.Number({ minimum: 0, maximum: 1, default: 1, description });

/**
 * The schema of the configuration. It validates the file and supplies the defaults; docs/configuration.md is generated
 * from its descriptions. Unknown keys are errors.
 */
export const ConfigSchema = Type.Object(
  {
    server: section('The HTTP server.', {
      host: Type.String({ minLength: 1, default: '127.0.0.1', description: 'Address to listen on (`BURSAR_HOST`).' }),
      port: port('Port to listen on; 0 picks a free one (`BURSAR_PORT`).', { default: 8080 }),
      trustProxy: Type.Array(Type.String(), {
        default: [],
        description:
          'Addresses and networks (CIDR) of the proxies in front of Bursar. Their `X-Forwarded-For` says where a request ' +
          'comes from, for the limits by address and for the audit trail. That of everybody else is ignored.',
      }),
      publicUrl: optionalText(
        'Address at which browsers reach Bursar, such as `https://bursar.example.org`: needed behind a reverse proxy. ' +
          'Plain http is possible on this host only. Default: the Host header of the request, with https unless it ' +
          'names this host.',
        { pattern: '^https?://[^/?#@]+/?$' },
      ),
      tls: Type.Optional(
        Type.Object(
          {
            certificate: Type.String({
              minLength: 1,
              description: 'PEM file with the certificate of this server, and the chain of those that signed it.',
            }),
            key: Type.String({
              minLength: 1,
              description: 'PEM file with its private key, without a passphrase. Only Bursar may be able to read it.',
            }),
          },
          {
            additionalProperties: false,
            description:
              'Lets Bursar itself speak TLS, on every port, for sites without a reverse proxy. SIGHUP reads the files ' +
              'anew. Default: plain HTTP. See [operations.md](operations.md#tls).',
          },
        ),
      ),
      requestTimeoutSeconds: positiveInt(3600, 'Timeout for receiving a request, uploads included.'),
      drainSeconds: positiveInt(20, 'How long a shutdown waits for requests and work in progress, in seconds.'),
    }),
    metrics: section('The metrics at `/metrics`. They name systems and count jobs, but reveal nothing about users.', {
      token: optionalText(
        'The bearer token that `/metrics` requires (`BURSAR_METRICS_TOKEN`). Default: everybody who reaches the ' +
          'server may read the metrics.',
        { minLength: 16 },
      ),
      host: Type.String({ minLength: 1, default: '127.0.0.1', description: 'Address of `metrics.port`.' }),
      port: Type.Optional(
        port(
          'Port of its own for the metrics and the probes; 0 picks a free one. The API then does not serve the metrics. ' +
            'Default: `/metrics` is a path of the API.',
        ),
      ),
    }),
    tracing: section('Traces, see [tracing.md](tracing.md).', {
      endpoint: optionalText(
        'Address of a collector of OpenTelemetry (OTLP over HTTP), such as `http://127.0.0.1:4318/v1/traces`. Default: ' +
          'nothing is recorded.',
        { pattern: '^https?://' },
      ),
      sampleRatio: sampleRatio(
        'Part of the traces that are recorded: 0.1 is every tenth. A request with a `traceparent` is recorded if its ' +
          'caller records it.',
      ),
      headers: Type.Record(Type.String(), Type.String(), {
        default: {},
        description: 'Headers of the requests to the collector, such as its token.',
      }),
    }),
    data: Type.String({
      minLength: 1,
      default: './data',
      description: 'Data folder (`BURSAR_DATA`), relative to the working directory.',
    }),
    database: section('The database.', {
      url: Type.String({
        default: 'sqlite:bursar.db',
        description:
          '`sqlite:<file>`, relative to the data folder; or `postgres://user:password@host:port/database`, see ' +
          '[postgresql.md](postgresql.md). `BURSAR_DATABASE_URL` overrides it.',
      }),
      connections: positiveInt(10, 'PostgreSQL: maximum number of connections per instance.'),
    }),
    oidc: Type.Array(OidcProvider, {
      default: [],
      description:
        'OpenID Connect providers, whose access tokens are accepted in addition to those of Bursar, see ' +
        '[identity.md](identity.md).',
    }),
    tokens: section('Tokens that users create for themselves.', {
      defaultDays: positiveInt(90, 'Life of a new token, in days.'),
      maxDays: positiveInt(365, 'Maximum life that a user can choose, in days.'),
    }),
    sessions: section('Sessions of people who sign in with a browser.', {
      idleMinutes: positiveInt(720, 'A session that was not used for so long ends, in minutes.'),
      maxDays: positiveInt(7, 'Maximum life of a session, in days.'),
    }),
    noticeDays: Type.Number({
      minimum: 0,
      default: 7,
      description:
        'How many days before the deletion of the files of a job, and the end of a token or of a grant, its users are ' +
        'notified. 0: not before it. A later change never shortens the notice of a job.',
    }),
    eventRetentionDays: positiveInt(90, 'Retention of events and their webhook deliveries, in days.'),
    limits: section('Limits, so that one client cannot starve the others.', {
      userRequests: positiveInt(10_000, 'Maximum requests of one user in ten seconds; half of them with one token.'),
      addressRequests: positiveInt(
        1000,
        'Maximum requests without a valid token from one address (IPv6: from one /64) in ten seconds. Behind a proxy that ' +
          '`server.trustProxy` does not list, this is the address of the proxy.',
      ),
      failedSignIns: positiveInt(
        20,
        'Maximum failed sign-ins, and requests with a token that is not valid, from one address (IPv6: from one /64) per ' +
          'minute. More are 429; requests with a valid token go on working. Three times as many sign-ins can be started.',
      ),
      uploads: positiveInt(200, 'Maximum concurrent uploads of one user.'),
      downloads: positiveInt(
        100,
        'Maximum concurrent downloads of one user: files, archives, lists of files, and logs.',
      ),
      logFollowers: positiveInt(100, 'Maximum requests of one user that follow a log.'),
      eventListeners: positiveInt(100, 'Maximum open event streams and long polls of one user.'),
      webhooks: positiveInt(20, 'Maximum number of webhooks of one user.'),
      unfinishedJobs: positiveInt(
        10_000,
        'Maximum number of jobs of one user that have not ended, in all projects. More are 429 `too_many_jobs`.',
      ),
      projectUnfinishedJobs: positiveInt(100_000, 'The same for one project, of all its users together.'),
      connections: positiveInt(
        10_000,
        'Maximum open connections; half of them from one address. Behind a proxy, this is the address of the proxy.',
      ),
    }),
    webhooks: section('Delivery of events to webhooks.', {
      allowNetworks: Type.Array(Type.String(), {
        default: [],
        description:
          'Private networks (CIDR, such as `10.1.0.0/16`) that webhooks may reach. Every user who can register a ' +
          'webhook can make this host connect to them.',
      }),
      denyNetworks: Type.Array(Type.String(), {
        default: [],
        description:
          'Further networks (CIDR) that webhooks may not reach, such as the public addresses of the site. They have ' +
          'precedence over `allowNetworks`. Private, loopback and other special networks are denied anyway.',
      }),
      allowPorts: Type.Array(Type.Integer({ minimum: 1, maximum: 65535 }), {
        default: [],
        description: 'Ports that webhook URLs may use, such as `[443]`. Default: all.',
      }),
      allowHttp: flag(false, 'Whether webhook URLs may use plain http.'),
      secretKey: optionalText(
        'The key from which the secrets of webhooks are derived, as a reference to a file with 32 random bytes in ' +
          'base64, such as `!file /etc/bursar/webhook-key`. Default: the file `webhook-key` of the data folder, which ' +
          'the first start creates. See [operations.md](operations.md#the-key-of-webhook-secrets).',
      ),
      concurrency: positiveInt(32, 'Maximum number of webhooks that are delivered to at the same time.'),
    }),
    log: section('The log, see [monitoring.md](monitoring.md#logs).', {
      level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        default: 'info',
        description: 'Minimum severity of logged messages.',
      }),
      format: Type.Enum(['auto', 'json', 'text'], {
        default: 'auto',
        description: '`json`: one object per line. `text`: for people. `auto`: text on a terminal, otherwise JSON.',
      }),
      sampleRatio: sampleRatio(
        'Part of the requests that are logged: 0.1 is every tenth. Requests that fail (status 400 and above) and those that ' +
          'take a second are always logged.',
      ),
      file: optionalText(
        'File of the log, relative to the working directory. A new one has mode 0600. SIGHUP opens it anew, after a ' +
          'rotation. Default: standard error.',
      ),
    }),
    submissions: section('Limits on uploaded zip files.', {
      maxBodyKb: positiveInt(2_000_000, 'Maximum size of a zip, in KB.'),
      maxEntries: positiveInt(20_000, 'Maximum number of files and folders in a zip.'),
      maxUnpackedKb: positiveInt(10_000_000, 'Maximum unpacked size, in KB.'),
    }),
    systems: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,31}$' }), System, {
      additionalProperties: false,
      minProperties: 1,
      description: 'The HPC systems, by their names in URL paths.',
    }),
  },
  { additionalProperties: false },
);

export type Config = Omit<Static<typeof ConfigSchema>, 'systems'> & {
  systems: Record<string, SystemConfig>;
  readonly [referencesKey]?: ResolvedReferences;
};
