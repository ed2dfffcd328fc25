import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { sendRawRequest } from './raw-http.ts';
import type { TestServer } from './server.ts';
import { until } from './until.ts';

export interface LogLine extends Record<string, unknown> {
  level: number;
  time: number;
  msg: string;
  reqId?: string;
}

/** Waits until the log of a server has the text: that of a server in a process of its own arrives a moment later. */
export async function waitForLog(server: Pick<TestServer, 'log'>, text: RegExp): Promise<void> {
  await until(`the log has ${text}`, () => text.test(server.log()) || undefined);
}

const errorLevel = 50;

/** Reads the log of the server up to now, and asserts that every line is JSON. */
export async function readLogLines(server: TestServer): Promise<LogLine[]> {
  const marker = randomUUID();
  await sendRawRequest(server.url, { path: '/', headers: [['x-request-id', marker]] });
  await until('the log is written', () => (server.log().includes(marker) ? true : undefined));
  return server
    .log()
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      assert.match(line, /^\{.*\}$/, 'every line is JSON');
      const entry = JSON.parse(line) as LogLine;
      assert.equal(`${typeof entry.level} ${typeof entry.time} ${typeof entry.msg}`, 'number number string', line);
      return entry;
    });
}

/**
 * Asserts that the log is structured, that every line about a request has its request id, that there are no errors of the
 * server, and that no token is in the log, in any form that a logger could write.
 */
export async function assertCleanLog(server: TestServer, tokens: readonly string[]): Promise<void> {
  const lines = await readLogLines(server);
  for (const line of lines) {
    if (!('method' in line) && !/^(request|connection) /.test(line.msg)) continue;
    assert.ok(!String(line.path ?? '').includes('?'), `the log contains a query: ${line.path}`);
    assert.match(line.reqId ?? '', /^[\w.-]{1,64}$/, JSON.stringify(line).slice(0, 300));
  }
  const errors = lines.filter((line) => line.level >= errorLevel);
  assert.deepEqual(errors, [], 'no errors of the server');
  const text = server.log();
  for (const token of tokens) {
    const secret = token.replace(/^bursar_/, '');
    assert.ok(secret.length >= 16, 'the token is long enough to search for');
    const bytes = Buffer.from(secret);
    const encodings = { text: secret, 'a list of bytes': bytes.join(','), hexadecimal: bytes.toString('hex') };
    for (const [encoding, encoded] of Object.entries(encodings)) {
      const index = text.indexOf(encoded);
      const line = index === -1 ? '' : `${text.slice(text.lastIndexOf('\n', index) + 1).slice(0, 150)}…`;
      assert.equal(index, -1, `the log contains a token as ${encoding}: ${line}`);
    }
  }
}
