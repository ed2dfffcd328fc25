import assert from 'node:assert/strict';
import { type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { diskRetryMs } from '../../../../src/engines/local/durable-files.ts';
import { createPipeStock, openOutputs } from '../../../../src/engines/local/supervisor/output.ts';
import { type LocalHarness, localHarness } from '../../../engines/local/harness.ts';
import { eventually, neverAborted, observeAll } from '../../../engines/observing.ts';
import { mountSmallDisk, type SmallDisk } from '../../../support/small-disk.ts';

// The records and the workspaces are on a disk that is full for a while.
describe('local engine on a full disk', () => {
  let disk: SmallDisk;
  let harness: LocalHarness;
  let outside: string;
  let goFile: string;

  before(async () => {
    outside = await mkdtemp(join(tmpdir(), 'bursar-outside-'));
    goFile = join(outside, 'go');
    disk = mountSmallDisk(16);
    harness = await localHarness({ cores: 2 }, disk.folder);
  });
  after(async () => {
    disk.free();
    await harness.close();
    disk.unmount();
    await rm(outside, { recursive: true });
  });

  async function submit(line: string): Promise<EngineJob> {
    const job = await harness.newJob({ command: { kind: 'line', line } });
    await harness.engine.submit(job, neverAborted);
    return job;
  }
  async function observe({ jobId }: EngineJob) {
    const observation = (await observeAll(harness.engine)).find((item) => item.jobId === jobId);
    assert.ok(observation);
    return observation;
  }
  const waitForKind = (job: EngineJob, kind: string) =>
    eventually(`${job.jobId} is ${kind}`, async () => (await observe(job)).kind === kind);
  const outcomeOf = async (job: EngineJob) => {
    const observation = await observe(job);
    return observation.kind === 'finished' ? observation.outcome : observation.kind;
  };

  test('records ends, keeps jobs queued, and stores output when space is free', async () => {
    const wait = `until [ -e ${goFile} ]; do sleep 0.05; done`;
    const silent = await submit(wait);
    const printing = await submit(`${wait}; seq 1 50000; echo end >&2`);
    const queued = await submit('echo started');
    for (const job of [silent, printing]) await waitForKind(job, 'running');

    disk.fill();
    writeFileSync(goFile, '');
    await waitForKind(silent, 'finished');
    assert.equal(await outcomeOf(silent), 'succeeded', 'the space of the end record was reserved');
    // Long enough for several attempts to start the queued job and to store the output.
    for (let polls = 0; polls < 5; polls++) {
      await sleep(500);
      assert.deepEqual([await outcomeOf(queued), await outcomeOf(printing)], ['queued', 'running']);
    }

    disk.free();
    for (const job of [printing, queued]) await waitForKind(job, 'finished');
    assert.deepEqual([await outcomeOf(printing), await outcomeOf(queued)], ['succeeded', 'succeeded']);
    const lines = readFileSync(printing.workspace.stdout, 'utf8').split('\n');
    assert.deepEqual([lines.length, lines.at(-2)], [50_001, '50000']);
    assert.equal(readFileSync(printing.workspace.stderr, 'utf8'), 'end\n');
    assert.equal(readFileSync(queued.workspace.stdout, 'utf8'), 'started\n');
  });

  test('stores all output if space is freed while the reader of the output is suspended', async () => {
    const file = join(disk.folder, 'output');
    const takePipe = () => createPipeStock().take(disk.folder);
    const fail = () => assert.fail('the output was not stored');
    const options = { file, takePipe, maxBytes: 1_000_000, onExceeded: fail, onFailure: fail };
    const [output] = await openOutputs([options]);
    assert.ok(output);
    disk.fill();
    // After a first chunk that the disk refuses, the reader buffers as much, and the rest stays in the pipe.
    const chunkBytes = 65_536;
    writeSync(output.writeEnd, Buffer.alloc(chunkBytes));
    const stdio: StdioOptions = ['ignore', output.writeEnd, 'inherit'];
    const writer = spawn('head', ['-c', String(2 * chunkBytes), '/dev/zero'], { stdio });
    const hasWritten = once(writer, 'exit');
    output.startReading();
    await hasWritten;
    await output.finish(100, () => {
      disk.free();
      // Afterwards, the next attempt to write and the next check of its result are due at the same time.
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * diskRetryMs));
      return false;
    });
    assert.equal(statSync(file).size, 3 * chunkBytes);
  });
});
