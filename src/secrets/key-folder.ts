import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { BursarError, errnoCode } from '../domain/errors.ts';
import type { SecretKey } from './cipher.ts';

const suffix = '.key';
const keyPattern = /^[A-Za-z0-9+/]{43}=\n?$/;

/**
 * Reads the keys that Bursar has created, from old to new: each is a file, whose name begins with the time. Keys are never
 * removed, because old backups need them.
 */
export function readKeyFolder(folder: string): SecretKey[] {
  return listNames(folder).map((name) => readKeyFile(join(folder, name)));
}

function listNames(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.endsWith(suffix) && !name.startsWith('.'));
    return names.sort();
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return [];
    throw new BursarError('invalid_config', `Cannot read the folder ${folder} (${errnoCode(error)}).`, {
      cause: error,
    });
  }
}

function readKeyFile(file: string): SecretKey {
  closeToOthers(file);
  const text = readFileSync(file, 'utf8');
  if (!keyPattern.test(text)) {
    const message = `${file} is not a key: it must have 32 bytes in base64. Restore it from your copy of the keys.`;
    throw new BursarError('invalid_config', message);
  }
  return { id: basename(file, suffix), bytes: Buffer.from(text, 'base64') };
}

/** The same rule as for the data folder: what is Bursar's own is closed to others, and what is not is refused. */
function closeToOthers(file: string): void {
  const { mode, uid } = statSync(file);
  if ((mode & 0o077) === 0) return;
  if (uid === process.geteuid?.()) chmodSync(file, 0o600);
  else if ((mode & 0o007) !== 0) {
    const message = `Other users of this host have access to the key ${file}. Run "chmod o-rwx ${file}".`;
    throw new BursarError('invalid_config', message);
  }
}

/**
 * Creates a key. It is on the disk before it is returned, so that nothing is encrypted under a key that a power failure
 * takes away. Two instances that start at the same time may create one each, and both are used.
 */
export function createKey(folder: string, now = new Date()): SecretKey {
  const time = laterThanAll(listNames(folder), now)
    .toISOString()
    .replaceAll(/[-:]|\.\d+/g, '');
  const id = `${time}-${randomBytes(4).toString('hex')}`;
  const bytes = randomBytes(32);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const partial = join(folder, `.${id}.partial`);
  writeFileSync(partial, `${bytes.toString('base64')}\n`, { flag: 'wx', mode: 0o600, flush: true });
  renameSync(partial, join(folder, id + suffix));
  for (const changed of [folder, dirname(folder)]) syncFolder(changed);
  return { id, bytes };
}

/** The newest key encrypts, even if the one before was created in the same second, or by a clock that was ahead. */
function laterThanAll(names: readonly string[], now: Date): Date {
  const [, date, hours, minutes, seconds] = /^(\d{8})T(\d\d)(\d\d)(\d\d)Z/.exec(names.at(-1) ?? '') ?? [];
  if (date === undefined) return now;
  const day = `${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}`;
  return new Date(Math.max(now.getTime(), Date.parse(`${day}T${hours}:${minutes}:${seconds}Z`) + 1000));
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
