import { homedir, userInfo } from 'node:os';

/**
 * What programs need to find their way, and nothing else of Bursar's own environment: it may hold secrets, and
 * SBATCH_* and SLURM_* variables act as options of Slurm's commands.
 */
export function baseEnvironment(): Record<string, string> {
  const user = userName();
  return {
    PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    HOME: homedir(),
    USER: user,
    LOGNAME: user,
    LANG: 'C.UTF-8',
  };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown'); // a container may run as a user without a name
  }
}
