import { BursarError } from '../../domain/errors.ts';

/** The part of a server's error message that tells one from the other. */
interface ServerError {
  severity: string;
  code: string;
}

/** Classes and codes of what passes by itself: out of resources, time-outs, a standby that has not been promoted. */
const passing = ['53', '57', '58', '08', '25006', '25P03', '55P03'];

const unknownCharacter = '22021';

/** Whether the connection is gone, or in a state that nobody knows: what the server itself says in peace leaves it be. */
export function isConnectionLost(error: unknown): boolean {
  return !isServerError(error) || error.severity === 'FATAL' || error.severity === 'PANIC';
}

/** What is nobody's mistake becomes `database_unavailable`; what is not ours stays what it is. */
export function toBursarError(error: unknown): unknown {
  if (error instanceof BursarError) return error;
  if (isServerError(error) && error.code === unknownCharacter) {
    const message = 'A text contains a NUL, which cannot be stored. Leave it out.';
    return new BursarError('bad_request', message, { cause: error });
  }
  const isPassing = isConnectionLost(error) || passing.some((code) => (error as ServerError).code.startsWith(code));
  if (!isPassing) return error;
  const message = 'The database cannot be reached just now, or takes too long. Try again in a moment.';
  return new BursarError('database_unavailable', message, { cause: error, transient: true });
}

function isServerError(error: unknown): error is ServerError {
  const { severity, code } = error as Partial<ServerError>;
  return typeof severity === 'string' && typeof code === 'string';
}

interface Place {
  host: string;
  port: number;
  user?: string;
  database: string;
}

/** Why a server that was asked at start does not serve, and what the operator can do. */
export function describeConnectionError(error: unknown, { host, port, user, database }: Place): BursarError {
  if (error instanceof BursarError && error.code !== 'database_unavailable') return error;
  const cause = error instanceof BursarError ? (error.cause ?? error) : error;
  const where = host.startsWith('/') ? `the socket in ${host}` : `${host} port ${port}`;
  const { code = '', message } = cause as Error & { code?: string };
  const refused = (text: string) => new BursarError('invalid_config', text, { cause });
  if (['28P01', '28000'].includes(code)) {
    return refused(
      `PostgreSQL at ${where} refuses the user ${user ?? 'of this process'} (${message}). ` +
        'Correct the user and password in database.url, or pg_hba.conf.',
    );
  }
  if (code === '3D000') {
    return refused(`PostgreSQL at ${where} has no database ${database}. Create it: createdb ${database}`);
  }
  if (code === '42501') {
    return refused(
      `The user ${user ?? 'of this process'} may not create tables in the database ${database} (${message}). ` +
        'Make the user its owner.',
    );
  }
  if (/SSL|TLS|certificate/i.test(message) || code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL')) {
    return refused(
      `There is no safe connection to PostgreSQL at ${where}: ${message}. ` +
        'Set sslmode and sslrootcert in database.url; docs/postgresql.md says how.',
    );
  }
  return new BursarError(
    'database_unavailable',
    `No PostgreSQL answers at ${where} (${message || code}). Start it, or correct database.url.`,
    { cause, transient: true },
  );
}
