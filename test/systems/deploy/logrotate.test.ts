import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { runFile } from '../../support/command-line.ts';
import { findSecrets } from '../../support/log-secrets.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

let folder: string;
let server: ServerProcess;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-log-'));
  const log = { level: 'info', format: 'auto', file: join(folder, 'bursar.log') };
  server = await spawnServer({ config: { ...shippedConfig(), log } });
});
after(async () => {
  await server.dispose();
  rmSync(folder, { recursive: true });
});

/** Rotates by the shipped configuration: only paths, the account and the name of the unit differ. */
async function rotate(): Promise<void> {
  const shipped = readFileSync(new URL('../../../deploy/logrotate/bursar', import.meta.url), 'utf8');
  const config = shipped
    .replace('/var/log/bursar/', `${folder}/`)
    .replace(/^\tsu bursar bursar\n/m, '')
    .replace('systemctl reload bursar.service', `kill -HUP ${server.process.pid}`);
  const file = join(folder, 'logrotate.conf');
  writeFileSync(file, config, { mode: 0o600 });
  // An empty file is not rotated.
  await waitForLines();
  await runFile('logrotate', ['--force', '--state', join(folder, 'state'), file]);
  await waitForLines();
}

async function waitForLines(): Promise<void> {
  const log = join(folder, 'bursar.log');
  await until('the log has lines', () => (existsSync(log) && statSync(log).size > 0 ? true : undefined));
}

function readLogs(): string {
  const names = readdirSync(folder).filter((name) => name.startsWith('bursar.log'));
  const read = (name: string) => {
    const bytes = readFileSync(join(folder, name));
    return String(name.endsWith('.gz') ? gunzipSync(bytes) : bytes);
  };
  return names.map(read).join('');
}

test('a rotation under load loses no line, and the files are for their owner only', async () => {
  let isDone = false;
  let sent = 0;
  async function sendRequests(): Promise<void> {
    while (!isDone) await (await fetch(`${server.url}/`, { headers: { 'x-request-id': `load-${sent++}` } })).text();
  }
  const load = Promise.all([1, 2, 3, 4].map(sendRequests));
  for (let n = 0; n < 3; n++) await rotate();
  isDone = true;
  await load;
  assert.equal(await server.stop(), 0);

  const names = readdirSync(folder).filter((name) => name.startsWith('bursar.log'));
  assert.deepEqual(names.sort(), ['bursar.log', 'bursar.log.1', 'bursar.log.2.gz', 'bursar.log.3.gz']);
  for (const name of names) assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name);
  const lines = readLogs().trimEnd().split('\n');
  const ids = lines.map((line) => String(JSON.parse(line).reqId)).filter((id) => id.startsWith('load-'));
  assert.equal(new Set(ids).size, sent, 'every request is in the log');
  assert.equal(ids.length, sent, 'once');
  assert.equal(lines.filter((line) => line.includes('"reloaded"')).length, 3);
  assert.deepEqual(findSecrets(lines.join('\n')), []);
});
