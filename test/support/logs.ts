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

const error = 50;

/** What the server has logged, every line of it JSON, up to and including what it does now. */
export async function readLogLines(server: TestServer): Promise<LogLine[]> {
  const marker = randomUUID();
  await sendRawRequest(server.url, { path: '/livez', headers: [['x-request-id', marker]] });
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
 * The log after whatever was done to the server: structured, every line about a request carries its identifier, no
 * failure of our own, and no token, in whatever form a logger could have written it.
 */
export async function assertCleanLog(server: TestServer, tokens: readonly string[]): Promise<void> {
  const lines = await readLogLines(server);
  for (const line of lines) {
    if (!('method' in line) && !/^(request|connection) /.test(line.msg)) continue;
    assert.ok(!String(line.path ?? '').includes('?'), `a query is in the log: ${line.path}`);
    assert.match(line.reqId ?? '', /^[\w.-]{1,64}$/, JSON.stringify(line).slice(0, 300));
  }
  const failures = lines.filter((line) => line.level >= error);
  assert.deepEqual(failures, [], 'nothing failed through a fault of the server');
  const text = server.log();
  for (const token of tokens) {
    const secret = token.replace(/^bursar_/, '');
    assert.ok(secret.length >= 16, 'a token that could be found');
    const bytes = Buffer.from(secret);
    const spellings = { text: secret, 'a list of bytes': bytes.join(','), hexadecimal: bytes.toString('hex') };
    for (const [spelling, written] of Object.entries(spellings)) {
      const at = text.indexOf(written);
      const message = at === -1 ? '' : `${text.slice(text.lastIndexOf('\n', at) + 1).slice(0, 150)}…`;
      assert.equal(at, -1, `a token is in the log as ${spelling}: ${message}`);
    }
  }
}
