import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller } from '../../support/api.ts';
import { openEventStream } from '../../support/event-stream.ts';
import { jobPath, runThroughAllStages } from '../../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SharedCluster, sharedCluster } from '../../support/shared-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';

/** Tests the event stream and the timeline of a job on a real Slurm cluster. */
export function eventsSuite(): void {
  describe('events of jobs on Slurm', { concurrency: 1 }, () => {
    let cluster: SharedCluster;
    let server: ServerProcess;
    let me: Caller;
    before(async () => {
      cluster = await sharedCluster();
      server = await spawnServer({ config: slurmConfig(cluster) });
      me = createCaller(server.url, server.userToken);
    });
    after(async () => {
      await server.dispose();
      await cluster.stop();
    });

    test('reports each stage of a job, and shows the state of Slurm in the timeline', async () => {
      const stream = await openEventStream(server.url, server.userToken);
      const job = await runThroughAllStages(server, me, 'exit 7', { payload: { runtime: '0.1' } });
      const events = await stream.waitForEvents(4);
      stream.disconnect();
      assert.deepEqual(
        events.map(({ id, type, job }) => [id, type, job?.stage]),
        [
          [1, 'job.accepted', 'QUEUED'],
          [2, 'job.queued', 'QUEUED'],
          [3, 'job.running', 'RUNNING'],
          [4, 'job.ended', 'FAILED'],
        ],
      );
      const { body: timeline } = await me.get<{ entries: Record<string, unknown>[] }>(`${jobPath(job)}timeline/`);
      const [, queued, running, ended] = timeline.entries;
      assert.match(String(queued?.engine_id), /^\d+$/);
      assert.equal(running?.scheduler_message, 'RUNNING');
      assert.match(String(ended?.scheduler_message), /^FAILED/);
      assert.deepEqual([ended?.exit_code, ended?.reason], [7, 'exit code 7']);
    });
  });
}
