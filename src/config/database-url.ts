import { BursarError } from '../domain/errors.ts';

/** Where the books are: a file, or a PostgreSQL server. */
export type DatabaseAddress = { kind: 'sqlite'; file: string } | ({ kind: 'postgres' } & PostgresAddress);

export interface PostgresAddress {
  /** A host, or the folder of a Unix socket. */
  host: string;
  port: number;
  /** Left out: as `psql` would take them, from the environment. */
  user?: string;
  password?: string;
  database: string;
  sslmode: SslMode;
  /** A file with the certificates to trust. Left out: those that Node trusts. */
  sslrootcert?: string;
}

/** As in libpq, without the modes that fall back to plain text by themselves. */
const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

const parameters = ['host', 'sslmode', 'sslrootcert'];
const example = 'postgres://user:password@host:5432/bursar';

/** Throws `invalid_config` with what is wrong; never with the address itself, which may hold a password. */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  if (text.startsWith('sqlite:')) {
    const file = text.replace(/^sqlite:(\/\/)?/, '');
    if (file === '') throw refusal('it names no file; write it like sqlite:bursar.db');
    return { kind: 'sqlite', file };
  }
  if (!/^postgres(ql)?:\/\//.test(text)) throw refusal(`it must begin with sqlite: or postgres://, like ${example}`);
  const url = parsed(text);
  const unknown = [...url.searchParams.keys()].find((name) => !parameters.includes(name));
  if (unknown !== undefined) throw refusal(`"${unknown}" is not known there; known are ${parameters.join(', ')}`);
  const database = decodeURIComponent(url.pathname.slice(1));
  if (database === '') throw refusal(`it names no database; write it like ${example}`);
  const host = url.searchParams.get('host') ?? (decodeURIComponent(url.hostname) || 'localhost');
  const sslrootcert = url.searchParams.get('sslrootcert');
  return {
    kind: 'postgres',
    host,
    port: Number(url.port || 5432),
    ...(url.username ? { user: decodeURIComponent(url.username) } : {}),
    ...(url.password ? { password: decodeURIComponent(url.password) } : {}),
    database,
    sslmode: sslModeOf(url.searchParams.get('sslmode'), host),
    ...(sslrootcert === null ? {} : { sslrootcert }),
  };
}

/** On the same machine nobody listens; to another one, nothing is sent that has not been proved to be the right one. */
function sslModeOf(given: string | null, host: string): SslMode {
  if (given === null) return isLocal(host) ? 'disable' : 'verify-full';
  const mode = sslModes.find((known) => known === given);
  if (mode === undefined) throw refusal(`sslmode must be one of ${sslModes.join(', ')}`);
  return mode;
}

function isLocal(host: string): boolean {
  return host.startsWith('/') || host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}

function parsed(text: string): URL {
  try {
    return new URL(text);
  } catch (cause) {
    throw refusal(`it is not well-formed; write it like ${example}, and percent-encode what is special in it`, cause);
  }
}

function refusal(message: string, cause?: unknown): BursarError {
  return new BursarError('invalid_config', `The address of the database is not valid: ${message}.`, { cause });
}
