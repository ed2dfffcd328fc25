import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Engine, SiteOptions } from '../engines/engine.ts';
import type { Workspaces } from '../files/workspaces/workspaces.ts';
import type { Check } from './finding.ts';

const limits = { maxEntries: 1, maxUnpackedBytes: 0, maxRatio: 1 };
const stepMs = 60_000;

/** What a canary job goes through. */
export interface CanaryTarget {
  engine: Engine;
  workspaces: Workspaces;
  site: SiteOptions;
  /** Where the workspaces are, for messages. */
  place: string;
  /** The end of a file of the job. */
  readLastLine(path: string): Promise<string>;
}

/** Whether the files of jobs can be kept, from this side. */
export async function checkWorkspace(check: Check, { workspaces, place }: Pick<CanaryTarget, 'workspaces' | 'place'>) {
  const jobId = newJobId();
  const { directory } = workspaces.pathsOf(jobId);
  const folder = directory.slice(0, directory.indexOf(jobId) - 1);
  return await check(
    `a workspace can be made on ${place}`,
    `Create ${folder} on ${place}, give it to the account that Bursar uses there, and see that there is room.`,
    async () => {
      await workspaces.stage(jobId, null, limits);
      await workspaces.remove(jobId);
      return folder;
    },
  );
}

/** Sends a real job through an engine, from its workspace to its end, and removes what it left. */
export async function runCanaryJob(check: Check, mine: CanaryTarget, patienceMs: number): Promise<void> {
  const { engine, workspaces } = mine;
  const jobId = newJobId();
  const fix =
    'See what the job printed and what the system says of it ("squeue" tells why a job waits). ' +
    'On a cluster: do its nodes see the workspace folder under the same path, and may the account write there?';
  const ran = await check('a canary job runs', fix, async () => {
    await workspaces.stage(jobId, null, limits);
    return await follow(mine, jobId, performance.now() + patienceMs);
  });
  if (!ran) await engine.cancel(jobId, AbortSignal.timeout(stepMs)).catch(() => undefined);
  await workspaces.remove(jobId).catch(() => undefined);
}

/** As every job's: also a running Bursar sees it in the queue, and knows that it is none of its own. */
const newJobId = () => `DOCTOR-${randomUUID().replaceAll('-', '').toUpperCase()}`;

async function follow(
  { engine, workspaces, site, readLastLine: readEnd }: CanaryTarget,
  jobId: string,
  deadline: number,
): Promise<string> {
  const workspace = workspaces.pathsOf(jobId);
  const command = { kind: 'line', line: 'touch canary && echo alive' } as const;
  const job = { jobId, nodes: 1, coresPerNode: 1, runtimeSeconds: 60, command, workspace, site };
  const expected = new Map([[jobId, await engine.submit(job, AbortSignal.timeout(stepMs))]]);
  await engine.release(expected, AbortSignal.timeout(stepMs));
  for (;;) {
    const seen = (await engine.observe(expected, AbortSignal.timeout(stepMs))).find((one) => one.jobId === jobId);
    if (seen?.kind === 'finished') {
      await engine.forget([jobId], AbortSignal.timeout(stepMs));
      if (seen.outcome === 'succeeded') return await checkOutput(readEnd, workspace.stdout, seen.elapsedSeconds);
      const said = await readEnd(workspace.stderr).catch(() => '');
      throw new Error(`it ended as ${seen.outcome}: ${seen.reason}${said && `; it printed: ${said}`}`);
    }
    if (performance.now() > deadline) {
      const words = seen?.engineMessage ? ` (${seen.engineMessage})` : '';
      throw new Error(`it was given up while ${seen?.kind ?? 'nobody knew of it'}${words}`);
    }
    await sleep(200);
  }
}

async function checkOutput(
  readEnd: CanaryTarget['readLastLine'],
  stdout: string,
  elapsedSeconds: number,
): Promise<string> {
  if ((await readEnd(stdout)) !== 'alive') throw new Error('what it printed did not come back');
  return `it ran for ${elapsedSeconds} s`;
}
