import { createReadStream, createWriteStream, statSync, truncateSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import { createCaller, type Job } from '../../test/support/api.ts';
import { startBareHttp } from '../baselines.ts';
import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchServer, startBursar } from '../bursar.ts';
import { download } from '../download.ts';
import { memoryMb, peakMemoryMb, resetPeakMemory } from '../processes.ts';

const payload = { command: 'true', runtime: 1, title: 'large' };

/** Writes a zip with one large uncompressed file; it would compress to almost nothing. */
async function largeZip(bench: Bench): Promise<string> {
  const folder = bench.temporaryFolder('large');
  const content = join(folder, 'large.dat');
  writeFileSync(content, '');
  truncateSync(content, bench.size.fileMb * 1_000_000);
  const zip = new ZipFile();
  zip.addFile(content, 'large.dat', { compress: false });
  zip.end();
  await pipeline(zip.outputStream, createWriteStream(join(folder, 'large.zip')));
  return join(folder, 'large.zip');
}

async function upload({ url, auth }: BenchServer, file: string): Promise<Job> {
  const headers = {
    ...auth,
    'content-disposition': 'attachment; filename=large.zip',
    'content-length': statSync(file).size,
    payload: JSON.stringify(payload),
  };
  const outgoing = request(`${url}/jobs/hpc_one/`, { method: 'POST', headers, agent: false });
  const responded = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve).once('error', reject);
  });
  await pipeline(createReadStream(file, { highWaterMark: 1_000_000 }), outgoing);
  const response = await responded;
  const body = await text(response);
  if (response.statusCode !== 201) throw new Error(`the upload was rejected: ${body}`);
  return JSON.parse(body) as Job;
}

export const largeFiles: Benchmark = {
  name: 'large-files',
  async run(bench) {
    const gb = bench.size.fileMb / 1000;
    const zip = await largeZip(bench);
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
        lastJob = await upload(bursar, zip);
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
