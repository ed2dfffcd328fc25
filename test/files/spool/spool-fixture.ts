import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { createSpool, maxInMemoryBytes, type Spool } from '../../../src/files/spool/spool.ts';
import { temporaryFolder } from '../temporary.ts';

export const jobId = '5B2C4E0A-3F6D-4C1B-9E7A-0123456789AB';
export const largeLimit = { maxBytes: 1_000_000 };

export async function openSpool(t: TestContext) {
  const directory = join(await temporaryFolder(t), 'data', 'spool');
  const spool = createSpool(directory);
  await spool.open();
  const incoming = () => readdir(join(directory, 'incoming'));
  return { spool, directory, incoming };
}

export async function* chunks(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text);
}

/** Receives an upload that is too large for memory, and returns the path of its file. */
export async function receiveFile(spool: Spool, text: string): Promise<string> {
  const { content } = await spool.receive(chunks(text.padEnd(maxInMemoryBytes + 1)), largeLimit);
  assert(content.kind === 'file');
  return content.path;
}

export async function modeOf(path: string) {
  return (await stat(path)).mode & 0o777;
}

/** Messages to users never contain paths of the server. */
export const isDiskErrorWithoutPath = (directory: string) => (error: unknown) => {
  assert(error instanceof BursarError);
  assert.equal(error.code, 'internal');
  assert.equal(error.message.includes(directory), false);
  return true;
};
