import { BursarError, storageUnavailable } from '../../domain/errors.ts';

/** The fields of a server error that classify it. */
interface ServerError {
  severity: string;
  code: string;
}

/** Classes and codes of transient errors: out of resources, timeouts, a standby that has not been promoted. */
const transientCodes = ['53', '57', '58', '08', '25006', '25P03', '55P03'];

const diskFull = '53100';

/** A character that the encoding of the database lacks: the only one in UTF-8 is NUL. */
const invalidCharacter = '22021';

/** Whether the connection is lost or in an unknown state. It stays usable after an ordinary error of the server. */
export function isConnectionLost(error: unknown): boolean {
  return !isServerError(error) || error.severity === 'FATAL' || error.severity === 'PANIC';
}

/** Turns transient errors into `database_unavailable` and leaves unknown ones unchanged. */
export function toBursarError(error: unknown): unknown {
  if (error instanceof BursarError) return error;
  if (isServerError(error) && error.code === invalidCharacter) {
    const message = 'A text contains a NUL character, which cannot be stored. Remove it.';
    return new BursarError('bad_request', message, { cause: error });
  }
  // The server has rolled the transaction back. If it cannot write even that, it closes the connection.
  if (!isConnectionLost(error) && (error as ServerError).code === diskFull) return storageUnavailable(diskFull, error);
  const isTransient =
    isConnectionLost(error) || transientCodes.some((code) => (error as ServerError).code.startsWith(code));
  if (!isTransient) return error;
  const message = 'The database is unreachable or too slow. Try again in a moment.';
  return new BursarError('database_unavailable', message, { cause: error, transient: true });
}

function isServerError(error: unknown): error is ServerError {
  const { severity, code } = error as Partial<ServerError>;
  return typeof severity === 'string' && typeof code === 'string';
}

interface ServerAddress {
  host: string;
  port: number;
  user?: string;
  database: string;
}

/** Explains to the operator why the connection failed at start, and what to do. */
export function describeConnectionError(error: unknown, { host, port, user, database }: ServerAddress): BursarError {
  if (error instanceof BursarError && error.code !== 'database_unavailable') return error;
  const cause = error instanceof BursarError ? (error.cause ?? error) : error;
  const address = host.startsWith('/') ? `the socket in ${host}` : `${host} port ${port}`;
  const { code = '', message } = cause as Error & { code?: string };
  const invalidConfig = (text: string) => new BursarError('invalid_config', text, { cause });
  if (['28P01', '28000'].includes(code)) {
    return invalidConfig(
      `PostgreSQL at ${address} rejects the user ${user ?? 'of this process'} (${message}). ` +
        'Correct the user and password in database.url, or pg_hba.conf.',
    );
  }
  if (code === '3D000') {
    return invalidConfig(`PostgreSQL at ${address} has no database ${database}. Create it: createdb ${database}`);
  }
  if (code === '42501') {
    return invalidConfig(
      `The user ${user ?? 'of this process'} may not create tables in the database ${database} (${message}). ` +
        'Make the user its owner.',
    );
  }
  if (/SSL|TLS|certificate/i.test(message) || code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL')) {
    return invalidConfig(
      `Cannot open a TLS connection to PostgreSQL at ${address}: ${message}. ` +
        'Set sslmode and sslrootcert in database.url; see docs/postgresql.md.',
    );
  }
  return new BursarError(
    'database_unavailable',
    `Cannot connect to PostgreSQL at ${address} (${message || code}). Start it, or correct database.url.`,
    { cause, transient: true },
  );
}
