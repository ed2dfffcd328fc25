import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { type JobOverrides, withAutomaticRelease } from '../../../engines/engine-harness.ts';
import { eventually, neverAborted, waitUntilFinished } from '../../../engines/observing.ts';
import { countRuns, shellLine } from '../../../engines/test-jobs.ts';
import type { SlurmHarness } from './slurm-harness.ts';

/** On a busy machine each step can take several seconds. */
const twoNodes = { nodes: 2, coresPerNode: 2, runtimeSeconds: 600 };

/** Submits a job, and returns its end and its output. `onStart` is called when the job has called `echo ran >> runs`. */
export async function runJob(
  { engine, newJob }: Pick<SlurmHarness, 'engine' | 'newJob'>,
  line: string,
  overrides: JobOverrides = {},
  onStart?: (job: EngineJob) => Promise<void>,
) {
  const job = await newJob({ ...twoNodes, ...shellLine(line), ...overrides });
  await withAutomaticRelease(engine).submit(job, neverAborted);
  if (onStart !== undefined) {
    await eventually('the job has started', async () => (await countRuns(job)) > 0);
    await onStart(job);
  }
  const end = await waitUntilFinished(engine, job.jobId);
  const [stdout, stderr] = await Promise.all([
    readFile(job.workspace.stdout, 'utf8'),
    readFile(job.workspace.stderr, 'utf8'),
  ]);
  return { job, end, stdout, stderr, lines: stdout.split('\n').filter(Boolean) };
}

const twoNodeStep = `
mkdir sub; cd sub
export GREETING='two  "words"
and a line'
srun -l -N2 --ntasks=2 bash -c '
  echo "$SLURMD_NODENAME $(pwd)"; echo "error of $SLURM_PROCID" >&2
  echo "$GREETING" > "$SLURM_PROCID"; exit $((SLURM_PROCID * 3))'
echo "code $?"
`;

/** Runs a step with a task on each of two nodes. */
export async function assertTwoNodeStep(harness: SlurmHarness): Promise<void> {
  const { job, end, stdout, stderr, lines } = await runJob(harness, twoNodeStep);
  assert.equal(end.outcome, 'succeeded', stderr);
  const folder = join(job.workspace.directory, 'sub');
  const [first, second] = harness.cluster.nodes;
  assert.deepEqual(lines.toSorted(), [`0: ${first} ${folder}`, `1: ${second} ${folder}`, 'code 3'], stdout);
  assert.match(stderr, /^0: error of 0$/m);
  assert.match(stderr, /^1: error of 1$/m);
  assert.match(stderr, new RegExp(`^srun: error: ${second}: task 1: Exited with exit code 3$`, 'm'));
  for (const task of ['0', '1']) assert.equal(await readFile(join(folder, task), 'utf8'), 'two  "words"\nand a line\n');
}
