import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Environment } from '../../host.ts';
import { CommandError } from '../errors.ts';
import { configFolder } from './paths.ts';

/** The OpenID provider that renews the token. */
export interface ProfileIssuer {
  issuer: string;
  client_id: string;
  token_endpoint: string;
  revocation_endpoint?: string | undefined;
  refresh_token?: string | undefined;
}

/** A server and the token for it. The names are those of the file. */
export interface Profile {
  url: string;
  token: string;
  user: string;
  /** When the token ends (ISO 8601); absent if it does not. */
  expires_at?: string | undefined;
  /** The number of the token, if `login` created it: `logout` revokes it. */
  token_id?: number | undefined;
  issuer?: ProfileIssuer | undefined;
  /** The user has accepted that the token goes over plain HTTP. */
  insecure?: boolean | undefined;
}

export interface ProfileFile {
  /** The profile that is used if none is named. */
  current: string;
  profiles: Record<string, Profile>;
}

const lockTimeoutMs = 20_000;
/** Nobody holds the lock longer: a request to an issuer ends before. */
const staleLockMs = 15_000;

export const profilePath = (env: Environment) => join(configFolder(env), 'profiles.json');

/** Reads all profiles. There are none if the file does not exist. */
export async function readProfiles(env: Environment): Promise<ProfileFile> {
  const path = profilePath(env);
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0)
      throw new CommandError(
        'failure',
        `Other users can read ${path}, which has your tokens.`,
        `Run: chmod 600 '${path}'`,
      );
    return parseProfiles(await readFile(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { current: 'default', profiles: {} };
    if (error instanceof SyntaxError)
      throw new CommandError('failure', `${path} is damaged.`, 'Repair it, or remove it and run: bursar login');
    throw error;
  }
}

/** Throws a SyntaxError for a file that `login` has not written like that. */
function parseProfiles(text: string): ProfileFile {
  const file = JSON.parse(text) as Partial<ProfileFile> | null;
  const { current = 'default', profiles = {} } = file ?? {};
  const isProfile = (value: Partial<Profile> | null) =>
    typeof value?.url === 'string' && URL.canParse(value.url) && typeof value.token === 'string';
  if (profiles === null || !Object.values(profiles).every(isProfile)) throw new SyntaxError('not a list of profiles');
  return { current, profiles };
}

/** Changes the profiles while no other command does. The file is replaced as a whole, and readable by its owner only. */
export async function updateProfiles<T>(env: Environment, change: (file: ProfileFile) => Promise<T> | T): Promise<T> {
  await mkdir(configFolder(env), { recursive: true, mode: 0o700 });
  const unlock = await lock(`${profilePath(env)}.lock`);
  try {
    const file = await readProfiles(env);
    const before = JSON.stringify(file);
    const result = await change(file);
    if (JSON.stringify(file) !== before) await replaceFile(profilePath(env), `${JSON.stringify(file, null, 2)}\n`);
    return result;
  } finally {
    await unlock();
  }
}

/** Writes a file with mode 0600. After a crash the old or the new content is there, never a part. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const temporary = `${path}.${process.pid}`;
  const handle = await open(temporary, 'w', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, path);
}

async function lock(path: string): Promise<() => Promise<void>> {
  const deadline = Date.now() + lockTimeoutMs;
  while (Date.now() < deadline) {
    try {
      await (await open(path, 'wx', 0o600)).close();
      return () => rm(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      await removeStaleLock(path);
      await sleep(25 + Math.random() * 25);
    }
  }
  throw new CommandError('failure', `Another command holds ${path}.`, 'If none is running, remove the file.');
}

/** A command that was killed leaves its lock behind. Only one of several waiting commands can rename the file. */
async function removeStaleLock(path: string): Promise<void> {
  try {
    const { mtimeMs } = await stat(path);
    if (Date.now() - mtimeMs < staleLockMs) return;
    const taken = `${path}.${process.pid}`;
    await rename(path, taken);
    await rm(taken, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
