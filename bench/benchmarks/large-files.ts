import { join } from 'node:path';
import { createCaller, type Job } from '../../test/support/api.ts';
import { startBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { download } from '../download.ts';
import { memoryMb, peakMemoryMb, resetPeakMemory } from '../processes.ts';
import { largeZip, upload } from '../upload.ts';

export const largeFiles: Benchmark = {
  name: 'large-files',
  async run(bench) {
    const gb = bench.size.fileMb / 1000;
    const zip = await largeZip(bench, bench.size.fileMb);
    const bursar = await startBursar(bench);
    const client = createCaller(bursar.url, bursar.userToken);
    let lastJob: Job | undefined;
    const filesPath = (job: Job) => `/files/hpc_one/${job.project_name}/${job.job_id}/`;

    await bench.measure({
      scenario: `${gb} GB upload`,
      baseline: 'memory before',
      unit: 'MB',
      threshold: { atMost: 64 },
      async ours() {
        // Saves disk space, and keeps the unpacking of the last job out of the measurement.
        if (lastJob !== undefined)
          await client.send('DELETE', `/jobs/hpc_one/${lastJob.project_name}/${lastJob.job_id}/`);
        const beforeMb = memoryMb(bursar.pid);
        resetPeakMemory(bursar.pid);
        lastJob = JSON.parse(await upload(bursar.url, bursar.auth, zip)) as Job;
        const growthMb = peakMemoryMb(bursar.pid) - beforeMb;
        await client.waitUntilFinished(lastJob);
        return growthMb;
      },
    });
    if (lastJob === undefined) return;

    const path = `${filesPath(lastJob)}large.dat`;
    const { pid } = bursar;
    const bareUrl = await startBareHttp(bench, {
      cat: join(bursar.data, 'workspaces', lastJob.job_id, 'files', 'large.dat'),
    });
    const rate = async (url: string, headers: Record<string, string>) => {
      const startedAt = performance.now();
      const bytes = await download(url, headers);
      return bytes / 1000 / (performance.now() - startedAt);
    };
    await bench.compare({
      scenario: `${gb} GB download`,
      baseline: 'cat through a bare node:http',
      unit: 'MB/s',
      threshold: { atLeast: 0.7 },
      ours: () => rate(bursar.url + path, bursar.auth),
      theirs: () => rate(bareUrl, {}),
    });
    await bench.measure({
      scenario: `${gb} GB download`,
      baseline: 'memory before',
      unit: 'MB',
      threshold: { atMost: 64 },
      async ours() {
        const beforeMb = memoryMb(pid);
        resetPeakMemory(pid);
        await rate(bursar.url + path, bursar.auth);
        return peakMemoryMb(pid) - beforeMb;
      },
    });
  },
};
