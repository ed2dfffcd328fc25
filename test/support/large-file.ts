import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { Job } from './api.ts';
import type { TestServer } from './server.ts';

// Sends and receives a file in parts, so that the test itself needs little memory for it.

type Server = Pick<TestServer, 'url' | 'userToken'>;

const blockBytes = 1_000_000;

/** Submits a job with a random file `big.bin` of this many megabytes, in an uncompressed zip. The job prints its size. */
export async function submitLargeFile(server: Server, megabytes: number): Promise<{ job: Job; sha256: string }> {
  const hash = createHash('sha256');
  const block = randomBytes(blockBytes);
  const content = Readable.from(
    (function* () {
      for (let index = 0; index < megabytes; index += 1) {
        block.writeUInt32LE(index);
        const copy = Buffer.from(block);
        hash.update(copy);
        yield copy;
      }
    })(),
  );
  const zip = new ZipFile();
  zip.addReadStream(content, 'big.bin', { compress: false });
  zip.end();
  const upload = request(`${server.url}/jobs/hpc_one/`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.userToken}`,
      'content-disposition': 'attachment; filename=job.zip',
      payload: JSON.stringify({ command: 'wc -c < big.bin' }),
    },
  });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  await pipeline(zip.outputStream, upload);
  const [response] = await answered;
  assert.equal(response.statusCode, 201);
  return { job: JSON.parse(await text(response)), sha256: hash.digest('hex') };
}

/** Downloads a file of a job, or with `?archive=zip` all of them. */
export async function downloadLargeFile(
  server: Server,
  job: Job,
  path: string,
): Promise<{ bytes: number; sha256: string }> {
  const url = `${server.url}/files/hpc_one/proj_hpc_one_01/${job.job_id}/${path}`;
  const sent = request(url, { headers: { authorization: `Bearer ${server.userToken}` } }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  assert.equal(response.statusCode, 200);
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}
