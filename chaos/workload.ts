import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCaller, type Job } from '../test/support/api.ts';
import { jobPath } from '../test/support/jobs.ts';
import { createZip } from '../test/support/zip.ts';

/** How a job of the workload ends, if nothing stops it. */
export type Plan =
  | { kind: 'exit'; code: number; seconds: number }
  | { kind: 'signal'; seconds: number }
  /** Runs until it is cancelled. */
  | { kind: 'cancel'; afterSeconds: number }
  /** Runs until its time limit, one minute. */
  | { kind: 'timeout' };

export interface SubmittedJob {
  title: string;
  plan: Plan;
  cores: number;
  /** Whether the server answered 201. */
  isAccepted: boolean;
  isCancelRequested: boolean;
}

/** The granted runtime of a job of the plan `timeout`; the time limits of Slurm are whole minutes. */
export const timeoutSeconds = 60;

function pickPlan(): Plan {
  const seconds = Math.floor(Math.random() * 6);
  const choice = Math.random();
  if (choice < 0.6) return { kind: 'exit', code: 0, seconds };
  if (choice < 0.8) return { kind: 'exit', code: 1 + Math.floor(Math.random() * 100), seconds };
  if (choice < 0.88) return { kind: 'signal', seconds };
  if (choice < 0.99) return { kind: 'cancel', afterSeconds: seconds };
  return { kind: 'timeout' };
}

/** The file in which a job records its own start and end, independently of Bursar's wrapper. */
export const recordFile = 'record';

function buildScript(plan: Plan): string {
  const start = `echo "start $(date +%s)" >> "$HOME/${recordFile}"`;
  const end = (result: string) => `echo "end $(date +%s) ${result}" >> "$HOME/${recordFile}"`;
  // A system kills the processes of a job one after the other: a script that loses its command first has not ended by itself.
  const run = (seconds: number) => `sleep ${seconds} || while :; do sleep 600; done`;
  switch (plan.kind) {
    case 'exit':
      return [start, run(plan.seconds), end(String(plan.code)), `exit ${plan.code}`].join('\n');
    case 'signal':
      return [start, run(plan.seconds), end('SEGV'), 'ulimit -c 0', 'kill -SEGV $$'].join('\n');
    case 'cancel':
    case 'timeout':
      return `${start}\nsleep 600`;
  }
}

export interface WorkloadOptions {
  /** Addresses of the servers. They change when servers restart. */
  urls(): string[];
  tokens: readonly string[];
  /** Delay between two submissions of a user. */
  intervalMs: number;
}

/** Submits jobs as each user until the signal aborts. Returns the submitted jobs and every response that is no success. */
export async function runWorkload(options: WorkloadOptions, signal: AbortSignal) {
  const submitted: SubmittedJob[] = [];
  const failures: string[] = [];
  const users = options.tokens.map((token, user) => submitAsUser(options, token, user, submitted, failures, signal));
  await Promise.all(users);
  return { submitted, failures };
}

async function submitAsUser(
  { urls, intervalMs }: WorkloadOptions,
  token: string,
  user: number,
  submitted: SubmittedJob[],
  failures: string[],
  signal: AbortSignal,
): Promise<void> {
  const cancellations: Promise<void>[] = [];
  const pickServer = () => {
    const addresses = urls();
    return createCaller(addresses[Math.floor(Math.random() * addresses.length)] ?? '', token);
  };

  /** Repeats a request until a server answers it. A server that is killed or cannot reach its database is expected. */
  async function repeat(request: () => Promise<{ status: number; text: string; body: unknown }>) {
    for (;;) {
      const response = await request().catch(() => null);
      if (response !== null && response.status < 300) return response;
      // 409: another server still works on the first attempt.
      if (response !== null && response.status !== 503 && response.status !== 409) {
        failures.push(`${response.status} ${response.text}`);
        return null;
      }
      await sleep(300);
    }
  }

  async function cancel(job: Job, entry: SubmittedJob, afterSeconds: number): Promise<void> {
    await sleep(afterSeconds * 1000);
    entry.isCancelRequested = true;
    await repeat(() => pickServer().send('POST', `${jobPath(job)}cancel/`));
  }

  for (let number = 0; !signal.aborted; number++) {
    const title = `u${user}-${number}`;
    const [plan, cores] = [pickPlan(), 1 + Math.floor(Math.random() * 4)];
    const entry: SubmittedJob = { title, plan, cores, isAccepted: false, isCancelRequested: false };
    submitted.push(entry);
    const script = buildScript(plan);
    const isZip = number % 2 === 0;
    const zip = isZip ? await createZip({ 'run.sh': `#!/bin/bash\n${script}\n` }) : undefined;
    const runtime = plan.kind === 'timeout' ? timeoutSeconds / 3600 : 0.1;
    const payload = {
      command: isZip ? 'sbatch run.sh' : script.replaceAll('\n', '; '),
      title,
      runtime,
      core_number: cores,
    };
    const headers = {
      'content-disposition': 'attachment; filename=job.zip',
      payload: JSON.stringify(payload),
      'idempotency-key': randomUUID(),
    };
    const response = await repeat(() => pickServer().send('POST', '/jobs/hpc_one/', headers, zip));
    if (response !== null) {
      entry.isAccepted = true;
      if (plan.kind === 'cancel') cancellations.push(cancel(response.body as Job, entry, plan.afterSeconds));
    }
    await sleep(intervalMs * (0.5 + Math.random()));
  }
  await Promise.all(cancellations);
}
