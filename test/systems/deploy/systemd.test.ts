import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runFile } from '../../support/command-line.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';

const unitFolder = fileURLToPath(new URL('../../../deploy/systemd/', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bursar-systemd-'));
after(() => rmSync(folder, { recursive: true }));

/** Receives datagrams as systemd does, and prints each as a line of JSON. */
const receiver = `
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('"bound"', flush=True)
while True: print(json.dumps(s.recv(4096).decode()), flush=True)
`;

const sender = 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"MARK", sys.argv[1])';

const isStopped = (server: ServerProcess) =>
  /^State:\s+T/m.test(readFileSync(`/proc/${server.process.pid}/status`, 'utf8'));

describe('the systemd unit', () => {
  test('has an exposure below 2.0, and below 4.0 where jobs run on this host', async () => {
    const unit = readFileSync(join(unitFolder, 'bursar.service'), 'utf8');
    const dropIn = readFileSync(join(unitFolder, 'local-engine.conf'), 'utf8');
    for (const [text, limit] of [
      [unit, 2],
      [`${unit}\n${dropIn}`, 4],
    ] as const) {
      const file = join(folder, 'bursar.service');
      writeFileSync(file, text);
      const { stdout } = await runFile('systemd-analyze', ['security', '--offline=true', '--no-pager', file]);
      const [, exposure] = /Overall exposure level for bursar\.service: ([\d.]+)/.exec(stdout) ?? [];
      assert.ok(Number(exposure) < limit, stdout);
    }
  });

  test('is correct', async () => {
    // systemd would complain that Bursar is not installed here.
    const installed = readFileSync(join(unitFolder, 'bursar.service'), 'utf8').replace(
      /^ExecStart=\S+/m,
      'ExecStart=/bin/true',
    );
    const file = join(folder, 'bursar.service');
    writeFileSync(file, installed);
    const { stdout, stderr } = await runFile('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', file]);
    assert.deepEqual([stdout, stderr], ['', '']);
  });
});

describe('systemd', () => {
  const messages: string[] = [];
  const count = (text: string) => messages.filter((message) => message.split('\n').includes(text)).length;
  const socket = join(folder, 'notify');
  let systemd: ChildProcess;
  let server: ServerProcess;

  /** Returns when every message that was sent before is received: the socket keeps their order. */
  async function receiveAll(): Promise<void> {
    const before = count('MARK');
    await runFile('python3', ['-c', sender, socket]);
    await until('the mark', () => count('MARK') > before || undefined);
  }

  before(async () => {
    systemd = spawn('python3', ['-c', receiver, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    systemd.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (output + text).split('\n');
      output = lines.pop() ?? '';
      messages.push(...lines.map((line) => JSON.parse(line) as string));
    });
    await until('the socket is bound', () => (messages.includes('bound') ? true : undefined));
    server = await spawnServer({ env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '600000' } });
  });
  after(async () => {
    server.process.kill('SIGCONT');
    await server.dispose();
    systemd.kill();
    await once(systemd, 'exit');
  });

  test('is told when requests are accepted', async () => {
    await until('READY', () => (count('READY=1') > 0 ? true : undefined));
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
    assert.equal(count(`STATUS=serves ${server.url}`), 1);
  });

  test('is told regularly that the server is alive, and not while it hangs', async () => {
    await until('two watchdog messages', () => (count('WATCHDOG=1') > 1 ? true : undefined));
    server.process.kill('SIGSTOP');
    await until('the server hangs', () => isStopped(server) || undefined);
    await receiveAll();
    const before = count('WATCHDOG=1');
    // More than four times the interval of the messages.
    await sleep(900);
    await receiveAll();
    const late = count('WATCHDOG=1') - before;
    assert.ok(late <= 1, `${late} messages: a process that the server had started may send one, not more`);
    server.process.kill('SIGCONT');
    await until('another message', () => count('WATCHDOG=1') > before + late || undefined);
  });

  test('is told when the server stops', async () => {
    assert.equal(count('STOPPING=1'), 0);
    assert.equal(await server.stop(), 0);
    await until('STOPPING', () => (count('STOPPING=1') === 1 ? true : undefined));
    assert.equal(count('READY=1'), 1);
  });
});
