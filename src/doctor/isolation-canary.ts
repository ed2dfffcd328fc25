import { quoteForBash } from '../shell/quote.ts';

/** Folders on the host of the job that a job must not reach. */
export interface ForbiddenFolders {
  /** The working directory of another job. */
  neighbour: string;
  /** The home of the account that runs the job, under all of its names. */
  home: readonly string[];
  /** Bursar's data folder, which may contain the workspaces, under all of its names. Empty if it is on another host. */
  data: readonly string[];
}

/**
 * A shell command that tries to read and to write folders that are none of the job's business, itself and, with `taskCommand`, in a
 * task that this command starts. Its last line of output is `alive`, or `reached` with the names of the folders that it reached. An isolated job may
 * find a folder of that name, read-only and with nothing in it but the way to its own workspace: that is not reached.
 */
export function isolationCanary({ neighbour, home, data }: ForbiddenFolders, taskCommand?: string): string {
  const attempts = {
    'the workspace of another job': `[ -e ${quoteForBash(neighbour)} ]`,
    'the home of the account': isAnyReached(home),
    'the data of Bursar': isAnyReached(data),
  };
  const tryAll = (suffix: string) =>
    isReachedFunction +
    Object.entries(attempts)
      .map(([name, attempt]) => `if ${attempt}; then printf %s '; ${name}${suffix}'; fi`)
      .join('\n');
  const inTask = ` (by a task of ${taskCommand?.split(' ', 1)})`;
  const task =
    taskCommand === undefined ? [] : [`reached=$reached$(${taskCommand} ${quoteForBash(tryAll(inTask))}) || exit`];
  const end = `if [ -n "$reached" ]; then echo "reached\${reached#;}"; else echo alive; fi`;
  return ['touch canary || exit', `reached=$(${tryAll('')})`, ...task, end].join('\n');
}

/** Returns what a canary reached; null if it did not run as it should. */
export function parseIsolationCanary(lastLine: string): string[] | null {
  if (lastLine === 'alive') return [];
  const [, names] = /^reached (.+)$/.exec(lastLine) ?? [];
  return names === undefined ? null : names.split('; ');
}

/** Succeeds if the folder can be written, or contains anything but the folder that leads to the workspace. */
const isReachedFunction = `is_reached() {
  { touch "$1/.bursar-canary" && rm -f "$1/.bursar-canary"; } 2> /dev/null && return
  for entry in "$1"/* "$1"/.[!.]*; do
    case $PWD/ in "$entry"/*) continue ;; esac
    [ ! -e "$entry" ] || return 0
  done
  return 1
}
`;

function isAnyReached(folders: readonly string[]): string {
  // Some accounts of the system have / as their home, which cannot be hidden.
  const attempts = folders.filter((folder) => folder !== '/').map((folder) => `is_reached ${quoteForBash(folder)}`);
  return attempts.join(' || ') || 'false';
}
