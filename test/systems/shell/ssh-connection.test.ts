import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type StartProcess, startProcess } from '../../../src/shell/process.ts';
import { controlSocketPath } from '../../../src/shell/ssh-connection.ts';
import { createSshShell, type SshShellOptions } from '../../../src/shell/ssh-shell.ts';
import { generousLimits } from '../../shell/shell-contract.ts';
import { listProcesses } from '../../support/process-list.ts';
import { findControlMasters, startSshd, type TestSshd } from '../../support/sshd.ts';
import { until } from '../../support/until.ts';

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

async function setUp(t: TestContext, overrides: (folder: string) => Partial<SshShellOptions> = () => ({})) {
  const sshd = await startSshd();
  const options = { ...sshd.options, ...overrides(sshd.folder) };
  const shell = createSshShell(options);
  t.after(async () => {
    await shell.close();
    await sshd.close();
  });
  const run = (...argv: string[]) => shell.run(argv, generousLimits());
  const masters = () => findControlMasters(options.controlFolder);
  const { environment: _, ...target } = options;
  const socket = controlSocketPath(target);
  /** Kills the shared connection, and returns when no command can find it any more. */
  const killConnection = async () => {
    const [master = 0] = masters();
    process.kill(master, 'SIGKILL');
    await until('the connection is gone', async () => !(await isListening(socket)) || undefined);
  };
  /** Identifies the connection: the same for all commands on it. */
  const connection = async () => (await run('printenv', 'SSH_CONNECTION')).stdout;
  return { sshd, options, socket, shell, run, masters, killConnection, connection };
}

async function isListening(path: string): Promise<boolean> {
  const probe = connect({ path });
  const isOpen = await once(probe, 'connect').then(
    () => true,
    () => false,
  );
  probe.destroy();
  return isOpen;
}

/** Runs a line of shell on the host before every command. */
async function forceCommand({ folder }: TestSshd, line: string) {
  const script = join(folder, 'forced');
  await writeFile(script, `#!/bin/sh\n${line}\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n`, { mode: 0o755 });
  const key = await readFile(join(folder, 'user_key.pub'), 'utf8');
  await writeFile(join(folder, 'user_key.pub'), `command="${script}" ${key}`);
}

const listCommands = () => listProcesses().map(({ command }) => command);

test('fifty commands share one connection, which close() ends', async (t) => {
  const { shell, masters, connection } = await setUp(t);
  const names = new Set<string>();
  for (let i = 0; i < 10; i += 1) names.add(await connection());
  for (const name of await Promise.all(Array.from({ length: 40 }, connection))) names.add(name);
  assert.equal(names.size, 1);
  assert.equal(masters().length, 1);
  await shell.close();
  await until('the connection is closed', () => masters().length === 0 || undefined);
});

test('concurrent first commands open one connection', async (t) => {
  const { masters, connection } = await setUp(t);
  const names = await Promise.all(Array.from({ length: 30 }, connection));
  assert.equal(new Set(names).size, 1);
  assert.equal(masters().length, 1);
});

test('runs more streams than one connection allows, and a command at the same time', async (t) => {
  const { shell, run } = await setUp(t);
  const controller = new AbortController();
  const tag = `600.${randomInt(1e9)}`; // a duration that no other process sleeps
  const idle = await Promise.all(
    Array.from({ length: 14 }, () => shell.stream(['sh', '-c', `echo ready; sleep ${tag}`], controller)),
  );
  for (const stream of idle) await new Promise((resolve) => stream.once('data', resolve).on('error', () => undefined));
  assert.equal((await run('echo', 'beside')).stdout, 'beside\n');
  controller.abort();
  await sleep(0); // let the streams close
  await shell.close();
  await until('all commands are killed', () => !listCommands().some((command) => command.includes(tag)) || undefined);
});

test('kills a command even if that takes longer than its caller waits', async (t) => {
  const { sshd, shell } = await setUp(t);
  const answer = join(sshd.folder, 'answer');
  // Like every program that writes, the session of the kill ends with its connection.
  const waiting = `until [ -e ${answer} ]; do echo waiting; sleep 0.1; done`;
  await forceCommand(sshd, `case $SSH_ORIGINAL_COMMAND in kill*) ${waiting} ;; esac`);
  const controller = new AbortController();
  const tag = `600.${randomInt(1e9)}`;
  const ended = assert.rejects(shell.run(['sleep', tag], { ...generousLimits(), signal: controller.signal }), {
    ...transient,
    message: /was interrupted/,
  });
  await until('the command runs', () => listCommands().includes(`sleep ${tag}`) || undefined);
  controller.abort();
  await ended;
  // Long enough for a session that has lost its connection to end.
  await sleep(1000);
  await writeFile(answer, '');
  await until('the command is killed', () => !listCommands().some((command) => command.includes(tag)) || undefined);
});

test('the next command reopens a connection that was killed', async (t) => {
  const { run, masters, killConnection } = await setUp(t);
  await run('true');
  for (let round = 0; round < 3; round += 1) {
    await killConnection();
    assert.deepEqual(await run('echo', 'again'), { code: 0, stdout: 'again\n', stderr: '' });
    assert.equal(masters().length, 1);
  }
});

test('a command that meets a dying connection runs nevertheless, and the next one reopens the connection', async (t) => {
  const { socket, run, masters, killConnection } = await setUp(t);
  await run('true');
  const [master = 0] = masters();
  // It still accepts connections, and does not answer.
  process.kill(master, 'SIGSTOP');
  const met = run('echo', 'met');
  const isCommand = (args: string) => args.startsWith('ssh ') && args.includes(socket);
  await until('the command has begun', () => listCommands().some(isCommand) || undefined);
  await killConnection();
  assert.deepEqual(await met, { code: 0, stdout: 'met\n', stderr: '' });
  assert.equal((await run('echo', 'again')).stdout, 'again\n');
  assert.equal(masters().length, 1);
});

test('reports a lost connection, and the next command succeeds', async (t) => {
  /** Of the newest command. */
  let hasReported: Promise<unknown> = Promise.resolve();
  const startAndWatch: StartProcess = async (...args) => {
    const child = await startProcess(...args);
    hasReported = once(child.stderr, 'data');
    return child;
  };
  const { sshd, shell, run, killConnection } = await setUp(t, () => ({ startProcess: startAndWatch }));
  const started = join(sshd.folder, 'started');
  const startCommand = async () => {
    const lost = assert.rejects(run('sh', '-c', `touch ${started}; sleep 60`), {
      ...transient,
      message: /was lost while sh on/,
    });
    await until('the command runs', () => existsSync(started) || undefined);
    await rm(started);
    // The host reports the start of a command over the connection, where the report may be delayed.
    await hasReported;
    return { lost };
  };
  const stream = await shell.stream(['sh', '-c', 'echo half; sleep 60'], generousLimits());
  const broken = assert.rejects(text(stream), transient);
  await once(stream, 'data');
  const { lost } = await startCommand();
  await killConnection();
  await lost;
  await broken;
  assert.equal((await run('echo', 'again')).stdout, 'again\n');
  const { lost: lostAgain } = await startCommand();
  await sshd.restart();
  await lostAgain;
  assert.equal((await run('echo', 'again')).stdout, 'again\n');
});

test('reports a stopped server as a transient error, and works again after its restart', async (t) => {
  const { sshd, run } = await setUp(t);
  await run('true');
  await sshd.stop();
  await assert.rejects(run('true'), { ...transient, message: /cannot be reached|was lost|no connection/ });
  await assert.rejects(run('true'), { ...transient, message: /cannot be reached at port/ });
  await sshd.restart();
  assert.equal((await run('echo', 'back')).stdout, 'back\n');
});

test('gives up on a host that never answers', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  const { run } = await setUp(t, () => ({ port, connectTimeoutSeconds: 1 }));
  // The error of ssh's own timeout, which is shorter than that of the command.
  await assert.rejects(run('true'), { ...transient, message: /cannot be reached at port/ });
});

test('destroys the input of a command that gets no connection, and ignores an error of that input', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  const { shell } = await setUp(t, () => ({ port, connectTimeoutSeconds: 1 }));
  const [whole, broken] = [Readable.from(['input']), new Readable({ read: () => undefined })];
  const runs = [whole, broken].map((stdin) =>
    assert.rejects(shell.run(['cat'], { ...generousLimits(), stdin }), transient),
  );
  broken.destroy(new Error('the input failed'));
  await Promise.all(runs);
  assert.equal(whole.destroyed, true);
});

test('reports an unknown host name', async (t) => {
  const { run } = await setUp(t, () => ({ host: 'no-such-host.invalid' }));
  await assert.rejects(run('true'), { ...transient, message: /no host of this name/ });
});

test('rejects an unknown host key and explains how to pin it', async (t) => {
  const { sshd, run } = await setUp(t, (folder) => ({ knownHostsFile: join(folder, 'missing') }));
  await assert.rejects(run('true'), {
    ...transient,
    message: /not known.*ssh-keyscan -p \d+ 127\.0\.0\.1 >> .*missing/,
  });
  assert.equal((await readdir(sshd.folder)).includes('missing'), false, 'no key is pinned automatically');
});

test('rejects a host key that differs from the pinned one', async (t) => {
  const { sshd, options, run } = await setUp(t);
  const [type, key] = (await readFile(join(sshd.folder, 'user_key.pub'), 'utf8')).split(' ');
  await writeFile(join(sshd.folder, 'known_hosts'), `[127.0.0.1]:${options.port} ${type} ${key}\n`);
  await assert.rejects(run('true'), { ...transient, message: /not the pinned one.*ssh-keygen -R/ });
});

test('names the key that the server does not accept', async (t) => {
  const { run } = await setUp(t, (folder) => ({ identityFile: join(folder, 'host_key') }));
  await assert.rejects(run('true'), { ...transient, message: /did not accept the key .*host_key.*authorized_keys/ });
});

test("uses the operator's ssh_config, except for settings that would change commands", async (t) => {
  const { sshd, options } = await setUp(t);
  const lines = [
    'Host cluster',
    'HostName 127.0.0.1',
    `Port ${options.port}`,
    `IdentityFile ${options.identityFile}`,
    `UserKnownHostsFile ${options.knownHostsFile}`,
    'RequestTTY force',
    'RemoteCommand echo hijacked',
    'StrictHostKeyChecking no',
    'ControlMaster no',
    'LogLevel QUIET',
  ];
  const configFile = join(sshd.folder, 'operator_config');
  await writeFile(configFile, `${lines.join('\n')}\n`);
  const { controlFolder, connectTimeoutSeconds, environment } = options;
  const shell = createSshShell({ host: 'cluster', configFile, controlFolder, connectTimeoutSeconds, environment });
  t.after(() => shell.close());
  assert.deepEqual(await shell.run(['echo', 'mine'], generousLimits()), { code: 0, stdout: 'mine\n', stderr: '' });
});

test('accepts paths that contain spaces and percent signs', async (t) => {
  const { sshd, options } = await setUp(t);
  const oddFolder = join(sshd.folder, 'a %h b');
  await mkdir(oddFolder);
  for (const name of ['known_hosts', 'user_key']) {
    await writeFile(join(oddFolder, name), await readFile(join(sshd.folder, name)), { mode: 0o600 });
  }
  const files = {
    knownHostsFile: join(oddFolder, 'known_hosts'),
    identityFile: join(oddFolder, 'user_key'),
    controlFolder: oddFolder,
  };
  const shell = createSshShell({ ...options, ...files });
  t.after(() => shell.close());
  assert.equal((await shell.run(['echo', 'mine'], generousLimits())).stdout, 'mine\n');
  assert.equal((await readdir(oddFolder)).length, 4, 'with the socket and its log');
});

test('uses a short temporary folder if the path is too long for a socket, and removes it on close', async (t) => {
  const { options } = await setUp(t);
  const long = { ...options, controlFolder: join(tmpdir(), 'x'.repeat(90)) };
  const socket = controlSocketPath(long);
  assert.ok(Buffer.byteLength(socket) < 90);
  const shell = createSshShell(long);
  t.after(() => shell.close());
  const echo = async (text: string) => (await shell.run(['echo', text], generousLimits())).stdout;
  assert.equal(await echo('mine'), 'mine\n');
  assert.equal((await stat(dirname(socket))).mode & 0o777, 0o700);
  assert.equal(existsSync(long.controlFolder), false);
  await shell.close();
  await until('the folder is removed', () => !existsSync(dirname(socket)) || undefined);
  // Another user could have created a socket in a folder that everyone can write to.
  await mkdir(dirname(socket));
  t.after(() => rm(dirname(socket), { recursive: true, force: true }));
  await chmod(dirname(socket), 0o777);
  await assert.rejects(echo('yours'), { ...transient, message: /must be a folder that only this user can write to/ });
});

test('does not return what start-up files print as output', async (t) => {
  const { sshd, run, options } = await setUp(t);
  await forceCommand(sshd, 'echo welcome; echo motd >&2');
  assert.deepEqual(await run('echo', 'mine'), { code: 0, stdout: 'mine\n', stderr: '' });
  const shell = createSshShell(options);
  assert.equal(await text(await shell.stream(['echo', 'mine'], generousLimits())), 'mine\n');
});
