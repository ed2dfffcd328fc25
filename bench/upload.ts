import { createReadStream, createWriteStream, statSync, truncateSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { Bench } from './benchmark.ts';

const payload = { command: 'true', runtime: 1, title: 'large' };

/** Writes a zip with one large uncompressed file; it would compress to almost nothing. */
export async function largeZip(bench: Bench, megabytes: number): Promise<string> {
  const folder = bench.temporaryFolder('large');
  const content = join(folder, 'large.dat');
  writeFileSync(content, '');
  truncateSync(content, megabytes * 1_000_000);
  const zip = new ZipFile();
  zip.addFile(content, 'large.dat', { compress: false });
  zip.end();
  await pipeline(zip.outputStream, createWriteStream(join(folder, 'large.zip')));
  return join(folder, 'large.zip');
}

/** Submits a job with a zip; returns the response. */
export async function upload(url: string, auth: Record<string, string>, file: string): Promise<string> {
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
  return body;
}
