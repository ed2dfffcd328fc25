import { BursarError } from '../domain/errors.ts';
import { isLoopback } from './loopback.ts';

export type DatabaseAddress = { kind: 'sqlite'; file: string } | ({ kind: 'postgres' } & PostgresAddress);

export interface PostgresAddress {
  /** A host name, or the folder of a Unix socket. */
  host: string;
  port: number;
  /** Undefined: taken from the environment, as `psql` does. */
  user?: string;
  password?: string;
  database: string;
  sslmode: SslMode;
  /** A file of trusted certificates. Undefined: those that Node trusts. */
  sslrootcert?: string;
}

/** The modes of libpq, except those that may fall back to an unencrypted connection. */
const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

const knownParameters = ['host', 'sslmode', 'sslrootcert'];
const exampleUrl = 'postgres://user:password@host:5432/bursar';

/** Throws `invalid_config`. The message never contains the URL, which may hold a password. */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  if (text.startsWith('sqlite:')) {
    const file = text.replace(/^sqlite:(\/\/)?/, '');
    if (file === '') throw invalidUrl('it has no file name; write it like sqlite:bursar.db');
    return { kind: 'sqlite', file };
  }
  if (!/^postgres(ql)?:\/\//.test(text))
    throw invalidUrl(`it must begin with sqlite: or postgres://, like ${exampleUrl}`);
  const url = parseUrl(text);
  const unknown = [...url.searchParams.keys()].find((name) => !knownParameters.includes(name));
  // A "?" in a password that is not encoded ends the host: what looks like a parameter is the rest of the password.
  if (unknown !== undefined && text.includes('@') && url.username === '') throw notWellFormed();
  if (unknown !== undefined)
    throw invalidUrl(`"${unknown}" is not a known parameter; use one of ${knownParameters.join(', ')}`);
  const database = decodeURIComponent(url.pathname.slice(1));
  if (database === '') throw invalidUrl(`it has no database name; write it like ${exampleUrl}`);
  const host = url.searchParams.get('host') ?? (decodeURIComponent(url.hostname) || 'localhost');
  const sslrootcert = url.searchParams.get('sslrootcert');
  return {
    kind: 'postgres',
    host,
    port: Number(url.port || 5432),
    ...(url.username ? { user: decodeURIComponent(url.username) } : {}),
    ...(url.password ? { password: decodeURIComponent(url.password) } : {}),
    database,
    sslmode: parseSslMode(url.searchParams.get('sslmode'), host),
    ...(sslrootcert === null ? {} : { sslrootcert }),
  };
}

/** The default needs no TLS on the same host, and verifies the certificate of any other host. */
function parseSslMode(text: string | null, host: string): SslMode {
  if (text === null) return host.startsWith('/') || isLoopback(host) ? 'disable' : 'verify-full';
  const mode = sslModes.find((sslMode) => sslMode === text);
  if (mode === undefined) throw invalidUrl(`sslmode must be one of ${sslModes.join(', ')}`);
  return mode;
}

function parseUrl(text: string): URL {
  try {
    return new URL(text);
  } catch (cause) {
    throw notWellFormed(cause);
  }
}

function notWellFormed(cause?: unknown): BursarError {
  return invalidUrl(`it is not well-formed; write it like ${exampleUrl}, and percent-encode special characters`, cause);
}

function invalidUrl(message: string, cause?: unknown): BursarError {
  return new BursarError('invalid_config', `The database URL is not valid: ${message}.`, { cause });
}
