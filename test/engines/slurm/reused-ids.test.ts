import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMissingJobInspector } from '../../../src/engines/batch/missing-jobs.ts';
import type { RunCommand } from '../../../src/engines/batch/run-command.ts';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { createSlurmEngine } from '../../../src/engines/slurm/index.ts';
import { createSlurmScheduler } from '../../../src/engines/slurm/scheduler.ts';
import { createQueueReader } from '../../../src/engines/slurm/squeue.ts';
import type { RunResult, Shell } from '../../../src/shell/shell.ts';
import { neverAborted } from '../observing.ts';

const [one, two] = ['6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B11', '6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B22'];
const at = 1_794_712_926;
const completed = (ref: number, name: string) => `0:09|${ref}|COMPLETED|None|0|${at}|${at + 9}|n1|1|1|${name}|\n`;
const pending = (ref: number, name: string) => `0:00|${ref}|PENDING|Resources|0|N/A|N/A||1|1|${name}|\n`;

// A controller assigns an id twice only if it is killed at an exact moment, so the output of squeue is a text.

const config = 'MinJobAge               = 300 sec\nNEXT_JOB_ID             = 100\n';
const heldJob = (ref: number, name: string) => `0:00|${ref}|PENDING|JobHeldUser|0|N/A|N/A||1|1|${name}|\n`;
const newJob = (jobId: string): EngineJob => ({
  jobId,
  nodes: 1,
  coresPerNode: 1,
  runtimeSeconds: 60,
  command: { kind: 'line', line: 'true' },
  workspace: { directory: '/w/files', stdout: '/w/out', stderr: '/w/err' },
  site: {},
});

/** An engine whose sbatch always returns the id 7. `commands` are those that ran, without the options of squeue and sbatch. */
function engineWithOneId() {
  const state = { queue: '', now: at * 1000, sbatchMs: 0, commands: [] as string[] };
  const run = async (argv: readonly string[]): Promise<RunResult> => {
    const [program = 'bash', ...args] = argv.slice(5);
    state.commands.push(program === 'scontrol' ? `${program} ${args.join(' ')}` : program);
    if (program === 'sbatch') state.now += state.sbatchMs;
    const outputs = { squeue: state.queue, sbatch: '7\n', scontrol: config, bash: 'never_started\n' };
    return { code: 0, stdout: outputs[program as keyof typeof outputs], stderr: '' };
  };
  const options = { commandTimeoutMs: 1000, onCommand: () => undefined, accounting: 'none', isolation: null } as const;
  const engine = createSlurmEngine({ ...options, shell: { run } as unknown as Shell, now: () => state.now });
  const submit = (jobId: string) => engine.submit(newJob(jobId), neverAborted, { isFirstTry: true });
  const release = async (jobId: string) => {
    state.commands = [];
    await engine.release(new Map([[jobId, '7']]), neverAborted);
    return state.commands;
  };
  return { engine, state, submit, release };
}

test('a job is not submitted twice although the caller has lost its first submission', async () => {
  const { state, submit } = engineWithOneId();
  await submit(one);
  assert.deepEqual(state.commands, ['squeue', 'sbatch']);
  state.queue = heldJob(7, one);
  state.commands = [];
  assert.equal(await submit(one), '7');
  assert.deepEqual(state.commands, ['squeue']);
  assert.equal(await submit(one), '7');
  assert.deepEqual(state.commands, ['squeue', 'squeue']);
});

test('a job is released by its id, once, right after its submission', async () => {
  const { submit, release } = engineWithOneId();
  await submit(one);
  assert.deepEqual(await release(one), ['scontrol release 7']);
  assert.deepEqual(await release(one), []);
});

test('squeue must confirm the id of a job that was not submitted just now', async () => {
  const { state, submit, release } = engineWithOneId();
  await submit(one);
  state.now += 1000;
  state.queue = heldJob(7, two);
  assert.deepEqual(await release(one), ['squeue']);
  state.queue = heldJob(7, one);
  assert.deepEqual(await release(one), ['squeue', 'scontrol release 7']);
  state.queue = pending(7, one);
  assert.deepEqual(await release(one), ['squeue']);
});

test('squeue must confirm the id of a job if the clock was set back since its submission', async () => {
  const { state, submit, release } = engineWithOneId();
  await submit(one);
  state.now -= 3_600_000;
  state.queue = heldJob(7, two);
  assert.deepEqual(await release(one), ['squeue']);
});

test('the id of a job is not released for another job that had it before', async () => {
  const { state, submit, release } = engineWithOneId();
  await submit(one);
  await submit(two);
  state.queue = heldJob(7, two);
  assert.deepEqual(await release(one), ['squeue']);
  assert.deepEqual(await release(two), ['scontrol release 7']);
});

test('a submission that was cancelled while it was held does not count as one', async () => {
  const { engine, state, submit } = engineWithOneId();
  // The controller has forgotten another submission since it was told to cancel this one as a duplicate.
  state.queue = `0:00|5|CANCELLED|JobHeldUser|0|${at}|${at}||1|1|${one}|\n`;
  assert.deepEqual(await engine.find([newJob(one)], neverAborted), new Map());
  assert.equal(await engine.submit(newJob(one), neverAborted), '7');
  // Somebody else has cancelled this one in the queue.
  state.queue = `0:00|5|CANCELLED|Priority|0|${at}|${at}||1|1|${two}|\n`;
  assert.deepEqual(await engine.find([newJob(two)], neverAborted), new Map([[two, '5']]));
  assert.equal(await submit(two), '5');
});

test('a job counts as seen when its submission was started, not when the response was read', async () => {
  const { engine, state, submit } = engineWithOneId();
  const { workspace } = newJob(one);
  const missing = new Map([[one, { ref: '7', workspace, acceptedAt: 0 }]]);
  state.sbatchMs = 299_000;
  await submit(one);
  assert.equal((await engine.inspectMissing(missing, neverAborted)).get(one)?.isForgotten, true);
  state.sbatchMs = 301_000;
  await submit(one);
  assert.equal((await engine.inspectMissing(missing, neverAborted)).get(one)?.isForgotten, false);
});

test('the end of a job is reported although a forgotten job had its id', async () => {
  let queue = completed(7, one);
  const shell = { run: async (): Promise<RunResult> => ({ code: 0, stdout: queue, stderr: '' }) } as unknown as Shell;
  const engine = createSlurmEngine({
    shell,
    commandTimeoutMs: 1000,
    onCommand: () => undefined,
    accounting: 'none',
    isolation: null,
  });
  const observe = async () =>
    (await engine.observe(new Map(), neverAborted)).map(({ jobId, kind }) => `${jobId} ${kind}`);
  assert.deepEqual(await observe(), [`${one} finished`]);
  await engine.forget([one], neverAborted);
  assert.deepEqual(await observe(), []);
  queue = completed(7, two);
  assert.deepEqual(await observe(), [`${two} finished`]);
});

test('a job counts as recently seen only if it was the job with that id', async () => {
  const hourMs = 3_600_000;
  let now = at * 1000;
  const outputs: Record<string, string> = {
    squeue: '',
    scontrol: config,
    bash: '',
  };
  const run: RunCommand = async ({ argv }) => ({ code: 0, stdout: outputs[argv[0]] ?? '', stderr: '' });
  const inspector = createMissingJobInspector(
    run,
    createSlurmScheduler(run, 'none', () => now),
    () => now,
  );
  const read = createQueueReader(() => now);
  const workspace = { directory: '/w/files', stdout: '/w/out', stderr: '/w/err' };
  inspector.recordQueue(read(pending(7, two)));
  const missing = { ref: '7', workspace, acceptedAt: now - hourMs };
  outputs.bash = 'never_started\nnever_started\n';
  now += 60_000;
  const statuses = await inspector.inspect(new Map([one, two].map((jobId) => [jobId, missing])), neverAborted);
  assert.deepEqual(
    [one, two].map((jobId) => statuses.get(jobId)?.isForgotten),
    [false, true],
  );
});
