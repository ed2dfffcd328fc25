import { quoteForBash } from '../shell/quote.ts';

/** Folders on the host of the job that a job must not reach. */
export interface ForbiddenFolders {
  /** The working directory of another job. */
  neighbour: string;
  /** The home of the account that runs the job. */
  home: string;
  /** Bursar's data folder. Undefined if it is on another host. */
  data?: string | undefined;
}

/**
 * A shell command that tries to read and to write folders that are none of the job's business, itself and, with `inTask`, in a
 * task of `srun`. Its last line of output is `alive`, or `reached` with the names of the folders that it reached. An isolated job may
 * find a folder of that name, empty and read-only, because its own workspace is inside of it: that is not reached.
 */
export function isolationCanary({ neighbour, home, data }: ForbiddenFolders, inTask: boolean): string {
  const attempts = {
    'the workspace of another job': [isWritable(neighbour)],
    'the home of the account': [isWritable(home), ...['.bashrc', '.profile', '.ssh'].map((name) => exists(home, name))],
    ...(data === undefined
      ? {}
      : { 'the data of Bursar': [isWritable(data), ...['bursar.db', 'spool'].map((name) => exists(data, name))] }),
  };
  const tryAll = (suffix: string) =>
    Object.entries(attempts)
      .map(([name, tests]) => `if ${tests.join(' || ')}; then printf %s '; ${name}${suffix}'; fi`)
      .join('\n');
  const task = `reached=$reached$(srun -N1 -n1 bash -c ${quoteForBash(tryAll(' (by a task of srun)'))}) || exit`;
  const end = `if [ -n "$reached" ]; then echo "reached\${reached#;}"; else echo alive; fi`;
  return ['touch canary || exit', `reached=$(${tryAll('')})`, ...(inTask ? [task] : []), end].join('\n');
}

/** Returns what a canary reached; null if it did not run as it should. */
export function parseIsolationCanary(lastLine: string): string[] | null {
  if (lastLine === 'alive') return [];
  const [, names] = /^reached (.+)$/.exec(lastLine) ?? [];
  return names === undefined ? null : names.split('; ');
}

const exists = (folder: string, name: string) => `[ -e ${quoteForBash(`${folder}/${name}`)} ]`;

function isWritable(folder: string): string {
  const file = quoteForBash(`${folder}/.bursar-canary`);
  return `{ touch ${file} && rm -f ${file}; } 2> /dev/null`;
}
