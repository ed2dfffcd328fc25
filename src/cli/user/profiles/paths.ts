import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../../host.ts';

/** The folder of the profiles, by the XDG base directory specification: a relative path in the variable is ignored. */
export function configFolder(env: Environment): string {
  return join(baseFolder(env.XDG_CONFIG_HOME, env, '.config'), 'bursar');
}

export function cacheFolder(env: Environment): string {
  return join(baseFolder(env.XDG_CACHE_HOME, env, '.cache'), 'bursar');
}

function baseFolder(folder: string | undefined, env: Environment, fallback: string): string {
  return folder?.startsWith('/') ? folder : join(env.HOME || homedir(), fallback);
}
