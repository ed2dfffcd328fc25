import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../clients/typescript/src/generated/types.ts';
import { type JobConnection, JobHandle } from '../../clients/typescript/src/job.ts';

test('a wait never reports an older state of the job: the first events can be older than what was read', async () => {
  const reference = { hpc: 'hpc_one', project_name: 'proj_hpc_one_01', job_id: 'A' };
  const job = (stage: string): Job =>
    ({ ...reference, stage, terminal_stage: stage === 'SUCCESSFUL' }) as unknown as Job;
  // No server can be made to send these events exactly after that response.
  const connection = {
    api: { getJob: async () => job('RUNNING') },
    jobEvents: {
      subscribe: async ({ onChange }: { onChange(changed: Job): void }) => {
        for (const stage of ['QUEUED', 'RUNNING', 'SUCCESSFUL']) onChange(job(stage));
        return () => undefined;
      },
    },
  } as unknown as JobConnection;
  const stages: string[] = [];
  const ended = await new JobHandle(connection, reference).wait({ onChange: ({ stage }) => stages.push(stage) });
  assert.deepEqual(stages, ['RUNNING', 'SUCCESSFUL']);
  assert.equal(ended.stage, 'SUCCESSFUL');
});
