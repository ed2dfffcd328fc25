import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract, type Problem } from '../../support/contract.ts';
import { listStoredFiles } from '../../support/jobs.ts';
import { startServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

export const disposition = 'attachment; filename=file.zip';

export type SubmissionFixture = Awaited<ReturnType<typeof openSubmissionFixture>>;

/** A server with callers whose responses are compared with the OpenAPI document. */
export async function openSubmissionFixture() {
  const server = await startServer();
  const { document, callerFor } = await loadOpenApiContract(server);
  const me: Caller = callerFor(server.userToken);
  return {
    server,
    document,
    me,
    newcomer: callerFor(await server.token('301331')),

    post(path: string, headers: Record<string, string>, body?: Buffer<ArrayBuffer>) {
      return me.send('POST', path, headers, body) as Promise<ApiResponse<Job & Problem>>;
    },

    /** Reads everything that a rejected submission must not change, after all jobs have ended. */
    async readState() {
      await until('the end of all jobs', async () => {
        const { body: jobs } = await me.get<Job[]>('/jobs/');
        return jobs.every((job) => job.terminal_stage) || undefined;
      });
      // The files of a job that never ran are removed shortly after its end is in the database.
      await until('the files no longer change', async () => {
        const before = String(listStoredFiles(server));
        await sleep(200);
        return before === String(listStoredFiles(server)) || undefined;
      });
      return {
        jobs: (await me.get('/jobs/')).text,
        quotas: (await me.get('/quotas/')).text,
        files: listStoredFiles(server),
      };
    },
  };
}
