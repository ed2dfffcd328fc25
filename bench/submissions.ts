import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Caller } from '../test/support/api.ts';
import { createZip } from '../test/support/zip.ts';
import type { Bench } from './benchmark.ts';
import type { BenchServer } from './bursar.ts';
import type { Load } from './load.ts';

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

export function submissionLoad(bench: Bench, bursar: BenchServer, zipFile: string): Load {
  const disposition = { 'content-disposition': 'attachment; filename=job.zip' };
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
