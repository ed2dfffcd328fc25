import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { doctorJobPrefix } from '../domain/jobs/job.ts';
import { type Check, Warning } from '../domain/systems/finding.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import type { SchedulerNames } from '../engines/definition.ts';
import type { Engine } from '../engines/engine.ts';
import type { Workspaces } from '../files/workspaces/workspaces.ts';
import { quoteForBash } from '../shell/quote.ts';

const unpackLimits = { maxEntries: 1, maxUnpackedBytes: 0, maxRatio: 1 };
const stepTimeoutMs = 60_000;
const pollIntervalMs = 200;

export interface CanaryTarget {
  engine: Engine;
  workspaces: Workspaces;
  site: object;
  /** Name of the host that has the workspaces, for messages. */
  host: string;
  /** Reads the last line of an output file of the job. */
  readLastLine(path: string): Promise<string>;
  isolation: Isolation;
  scheduler: SchedulerNames | undefined;
  /** Folders that an isolated job must not reach, in addition to the workspaces of other jobs. */
  forbidden: Omit<ForbiddenFolders, 'neighbour'>;
}

/** Checks that Bursar can create and remove a workspace. */
export async function checkWorkspace(check: Check, { workspaces, host }: Pick<CanaryTarget, 'workspaces' | 'host'>) {
  const jobId = newJobId();
  const { directory } = workspaces.pathsOf(jobId);
  const folder = directory.slice(0, directory.indexOf(jobId) - 1);
  return await check(
    `a workspace can be created on ${host}`,
    `Create ${folder} on ${host}, make the account that Bursar uses there its owner, and check the free disk space.`,
    async () => {
      await workspaces.stage(jobId, null, unpackLimits, AbortSignal.timeout(stepTimeoutMs));
      await workspaces.remove(jobId, AbortSignal.timeout(stepTimeoutMs));
      return folder;
    },
  );
}

/**
 * Runs a real job through the engine, from its workspace to its end, and removes its files. The job also tries to reach the
 * workspace of another job, the home of the account and Bursar's data.
 */
export async function runCanaryJob(check: Check, target: CanaryTarget, timeoutMs: number): Promise<void> {
  const { engine, workspaces, scheduler } = target;
  const jobId = newJobId();
  const neighbour = newJobId();
  let reached: string[] = [];
  const fix =
    `Read what the job printed, and what the system reports about it${scheduler === undefined ? '' : ` ("${scheduler.listCommand}" shows why a job waits)`}. ` +
    'On a cluster: check that its nodes see the workspace folder under the same path, and that the account can write there.';
  const succeeded = await check('a canary job runs', fix, async () => {
    for (const id of [jobId, neighbour])
      await workspaces.stage(id, null, unpackLimits, AbortSignal.timeout(stepTimeoutMs));
    const end = await runToEnd(target, jobId, neighbour, performance.now() + timeoutMs);
    reached = end.reached;
    return `it ran for ${end.elapsedSeconds} s`;
  });
  if (succeeded) await checkIsolation(check, target, reached);
  else await engine.cancel(jobId, AbortSignal.timeout(stepTimeoutMs)).catch(() => undefined);
  for (const id of [jobId, neighbour])
    await workspaces.remove(id, AbortSignal.timeout(stepTimeoutMs)).catch(() => undefined);
}

function checkIsolation(
  check: Check,
  { isolation, scheduler }: Pick<CanaryTarget, 'isolation' | 'scheduler'>,
  reached: readonly string[],
): Promise<boolean> {
  const list = reached.join(', ');
  if (isolation.kind === 'none') {
    const fix = 'Read docs/security.md, and set isolation: bubblewrap where jobs of several people run.';
    const detail = `they are not (${isolation.reason}); a job could reach ${list || 'nothing that it should not'}`;
    return check('jobs are isolated', fix, async () => Promise.reject(new Warning(detail)));
  }
  const fix = 'Do not let users in. Check readOnly of the system, and where the data folder and the workspaces are.';
  return check('jobs are isolated', fix, async () => {
    if (reached.length > 0) throw new Error(`a job could reach ${list}`);
    const [command] = scheduler?.taskCommand?.split(' ', 1) ?? [];
    const who = command === undefined ? 'a job' : `a job and a task of ${command}`;
    return `${who} could not reach the workspace of another job, the home of the account and the data of Bursar`;
  });
}

/** A running Bursar sees the job in the queue, and ignores it because its database does not have the job. */
const newJobId = () => `${doctorJobPrefix}${randomUUID().replaceAll('-', '').toUpperCase()}`;

async function runToEnd(target: CanaryTarget, jobId: string, neighbour: string, deadline: number) {
  const { engine, workspaces, site, readLastLine, isolation, scheduler, forbidden } = target;
  const workspace = workspaces.pathsOf(jobId);
  const folders = { ...forbidden, neighbour: workspaces.pathsOf(neighbour).directory };
  const line = isolationCanary(folders, isolation.kind === 'none' ? undefined : scheduler?.taskCommand);
  const command = { kind: 'line', line } as const;
  const job = { jobId, nodes: 1, coresPerNode: 1, runtimeSeconds: 60, command, workspace, site };
  const refs = new Map([[jobId, await engine.submit(job, AbortSignal.timeout(stepTimeoutMs))]]);
  await engine.release(refs, AbortSignal.timeout(stepTimeoutMs));
  for (;;) {
    const observations = await engine.observe(refs, AbortSignal.timeout(stepTimeoutMs));
    const observation = observations.find((candidate) => candidate.jobId === jobId);
    if (observation?.kind === 'finished') {
      const { outcome, reason, elapsedSeconds } = observation;
      await engine.forget([jobId], AbortSignal.timeout(stepTimeoutMs));
      if (outcome === 'succeeded') {
        const reached = parseIsolationCanary(await readLastLine(workspace.stdout));
        if (reached === null) throw new Error('the output of the job cannot be read back');
        return { elapsedSeconds, reached };
      }
      const stderrLine = await readLastLine(workspace.stderr).catch(() => '');
      throw new Error(`the job ended as ${outcome}: ${reason}${stderrLine && `; it printed: ${stderrLine}`}`);
    }
    if (performance.now() > deadline) {
      const state = observation?.kind ?? 'unknown to the system';
      throw new Error(
        `timed out while the job was ${state}${observation?.engineMessage ? ` (${observation.engineMessage})` : ''}`,
      );
    }
    await sleep(pollIntervalMs);
  }
}

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
