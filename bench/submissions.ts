import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Caller } from '../test/support/api.ts';
import { createZip } from '../test/support/zip.ts';
import type { Bench } from './benchmark.ts';
import type { BenchServer } from './bursar.ts';
import type { Load } from './load.ts';
import { buildRequest, openConnection } from './users/connection.ts';

const disposition = { 'content-disposition': 'attachment; filename=job.zip' };
const payload = { command: 'sbatch run.sh', node_number: '1', core_number: '4', runtime: '0.5', title: 'bench' };
const path = '/jobs/hpc_one/';
export const clientCount = 16;
/** A submission runs so much code that V8 spends a fifth of the CPU on compiling it during the first rounds. */
export const warmUpRounds = 6;

/** Writes a zip of 10 kB: a script and incompressible data. */
export async function smallZip(bench: Bench): Promise<string> {
  const file = join(bench.temporaryFolder('zip'), 'job.zip');
  writeFileSync(file, await createZip({ 'run.sh': '#!/bin/sh\nsleep 1\n', 'input.dat': randomBytes(9_600) }));
  return file;
}

/** Submits one job, the same as in `submissionLoad`. */
export async function submitOne(client: Caller, zip: Uint8Array): Promise<void> {
  const { status, text } = await client.submit(path, payload, zip);
  if (status !== 201) throw new Error(`the submission was rejected: ${text}`);
}

/** Submits jobs of several users, as fast as the server accepts them. The connections take turns with the tokens. */
export async function submitAll(
  url: string,
  tokens: readonly string[],
  zip: Buffer,
  { jobs, connections }: { jobs: number; connections: number },
): Promise<void> {
  const headers = { ...disposition, payload: JSON.stringify(payload) };
  let left = jobs;
  const submitSome = async (token: string) => {
    const request = buildRequest(url, { method: 'POST', path, token, headers, body: zip });
    const connection = openConnection(url);
    while (left-- > 0) {
      const status = await connection.send(request);
      if (status !== 201) throw new Error(`a submission got ${status}`);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: connections }, (_, n) => submitSome(tokens[n % tokens.length] ?? '')));
}

export function submissionLoad(bench: Bench, bursar: BenchServer, zipFile: string): Load {
  return {
    url: bursar.url,
    paths: [path],
    method: 'POST',
    headers: { ...bursar.auth, ...disposition, payload: JSON.stringify(payload) },
    bodyFile: zipFile,
    connections: clientCount,
    seconds: bench.size.seconds,
    status: 201,
  };
}
