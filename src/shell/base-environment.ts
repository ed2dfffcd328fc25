import { homedir, userInfo } from 'node:os';

/**
 * The environment of the commands that Bursar runs. The rest of Bursar's own environment is not passed on: it may
 * contain secrets, and the commands of schedulers take options from some variables.
 */
export function baseEnvironment(): Record<string, string> {
  const user = userName();
  return {
    PATH: process.env.PATH ?? defaultPath,
    HOME: homedir(),
    USER: user,
    LOGNAME: user,
    LANG: 'C.UTF-8',
  };
}

export const defaultPath = '/usr/local/bin:/usr/bin:/bin';

/** The login shell of the account, as bash sets `SHELL`. Not in the base environment: ssh would start its proxy with it. */
export function loginShell(): string {
  try {
    return userInfo().shell || '/bin/sh';
  } catch {
    return '/bin/sh';
  }
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown'); // in a container the user may have no name
  }
}
