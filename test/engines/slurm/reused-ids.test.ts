import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSlurmEngine } from '../../../src/engines/slurm/engine.ts';
import { createMissingJobInspector } from '../../../src/engines/slurm/missing-jobs.ts';
import { createQueueReader } from '../../../src/engines/slurm/queue-reader.ts';
import type { RunResult, Shell } from '../../../src/shell/shell.ts';
import { neverAborted } from '../observing.ts';

const [one, two] = ['6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B11', '6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B22'];
const at = 1_794_712_926;
const completed = (ref: number, name: string) => `0:09|${ref}|COMPLETED|None|0|${at}|${at + 9}|n1|1|1|${name}|\n`;
const pending = (ref: number, name: string) => `0:00|${ref}|PENDING|Resources|0|N/A|N/A||1|1|${name}|\n`;

// A controller assigns an id twice only if it is killed at an exact moment, so the output of squeue is a text.

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
    scontrol: 'MinJobAge               = 300 sec\nNEXT_JOB_ID             = 100\n',
    bash: '',
  };
  const inspector = createMissingJobInspector(
    async ({ argv }) => ({ code: 0, stdout: outputs[argv[0]] ?? '', stderr: '' }),
    () => now,
  );
  const read = createQueueReader(() => now);
  const workspace = { directory: '/w/files', stdout: '/w/out', stderr: '/w/err' };
  inspector.recordQueue(read(pending(7, two)));
  const missing = { ref: '7', workspace, acceptedAt: now - hourMs };
  outputs.bash = '0 never_started\n1 never_started\n';
  now += 60_000;
  const statuses = await inspector.inspect(new Map([one, two].map((jobId) => [jobId, missing])), neverAborted);
  assert.deepEqual(
    [one, two].map((jobId) => statuses.get(jobId)?.isForgotten),
    [false, true],
  );
});
