import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { LocalSandbox } from '../../../../src/engines/local/sandbox.ts';
import { createSupervisorClient } from '../../../../src/engines/local/supervisor/client.ts';
import { sandboxArguments } from '../../../../src/engines/sandbox/arguments.ts';
import {
  type LocalHarness,
  localHarness,
  localTest,
  processesMentioning,
  sharedSupervisor,
  supervisorLog,
} from '../../../engines/local/harness.ts';
import { eventually, neverAborted, waitUntilFinished, waitUntilRunning } from '../../../engines/observing.ts';
import { argv, shellLine, writeInput } from '../../../engines/test-jobs.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';
import { type ListedProcess, listProcesses } from '../../../support/process-list.ts';
import { account, createBubblewrap, createBubblewrapWithoutFile, needsRoot } from './isolated-harness.ts';

async function run(h: LocalHarness, overrides: Parameters<LocalHarness['newJob']>[0]) {
  const job = await h.newJob(overrides);
  await h.engine.submit(job, neverAborted);
  const end = await waitUntilFinished(h.engine, job.jobId);
  return { job, end, stdout: await readFile(job.workspace.stdout, 'utf8').catch(() => '') };
}

/** The states, as `ps` shows them, of the processes of bubblewrap with this text in their command line. */
function bubblewrapStates(text: string): string[] {
  const isBubblewrap = ({ command }: ListedProcess) => /^\S*bwrap /.test(command) && command.includes(text);
  return listProcesses()
    .filter(isBubblewrap)
    .map(({ state }) => state);
}

localTest(
  'an isolated job dies with its supervisor, even a process that has hidden itself',
  { sandbox: localSandbox() },
  async (h) => {
    const mark = `6${Date.now()}`;
    const hidden = `(env -i setsid sleep ${mark} > /dev/null 2>&1 &); touch ready; sleep 600`;
    const job = await h.newJob(shellLine(hidden));
    await h.engine.submit(job, neverAborted);
    await waitUntilRunning(h.engine, job.jobId);
    await eventually('the process hides', async () => existsSync(join(job.workspace.directory, 'ready')));
    // Bubblewrap asks the kernel for this death only after it has started the job, and waits for the end of the job then.
    await eventually('bubblewrap waits', async () => bubblewrapStates(mark).every((state) => state === 'S'));
    const { supervisor } = JSON.parse(await readFile(join(h.recordOf(job), 'start.json'), 'utf8'));
    // The engine must not see the end and kill the job itself.
    await h.engine.close();
    process.kill(supervisor.pid, 'SIGKILL');
    await eventually('no process is left', async () => processesMentioning(mark).length === 0);
    const end = await waitUntilFinished(await h.reopen(), job.jobId);
    assert.equal(end.outcome, 'lost');
  },
);

const orphanSupervisor = createSupervisorClient({ logFile: supervisorLog });
localTest(
  'a job that gives itself the id of another one is neither measured nor ended with it',
  {
    sandbox: localSandbox(),
    supervisor: { run: (job) => (job.folder.endsWith('orphan') ? orphanSupervisor : sharedSupervisor).run(job) },
  },
  async (h) => {
    const other = await h.newJob(shellLine('true'));
    const orphan = await h.newJob({ jobId: 'orphan', ...shellLine('sleep 600') });
    const wait = 'touch ready; until [ -e go ]; do sleep 0.05; done';
    const start = (id: string) => `BURSAR_JOB_ID=${id} bash -c '${wait}'`;
    const job = await h.newJob(shellLine(`${start(orphan.jobId)} & ${start(other.jobId)} && wait $!`));
    const at = (name: string) => join(job.workspace.directory, name);
    await h.engine.submit(job, neverAborted);
    await eventually('the job has another id', async () => existsSync(at('ready')));
    await h.engine.submit(other, neverAborted);
    await waitUntilFinished(h.engine, other.jobId);
    // The engine ends a job whose supervisor died.
    await h.engine.submit(orphan, neverAborted);
    await eventually('the group is recorded', async () => existsSync(join(h.recordOf(orphan), 'group.json')));
    const { supervisor } = JSON.parse(await readFile(join(h.recordOf(orphan), 'start.json'), 'utf8'));
    process.kill(supervisor.pid, 'SIGKILL');
    assert.equal((await waitUntilFinished(h.engine, orphan.jobId)).outcome, 'lost');
    await writeFile(at('go'), '');
    assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
  },
);

localTest(
  'a program that jobs cannot see is refused, and one that they can see is found instead',
  { sandbox: localSandbox() },
  async (h) => {
    const folder = join(h.root, 'bin');
    await mkdir(folder);
    await writeFile(join(folder, 'tool'), '#!/bin/sh\n', { mode: 0o755 });
    const { end } = await run(h, argv(join(folder, 'tool')));
    assert.deepEqual([end.outcome, end.startedAt], ['rejected', null]);
    assert.match(end.reason, /tool cannot be run: it is in a folder that jobs of this system cannot see/);
    const readOnly = await run(h, shellLine('ls /etc/hostname && touch /etc/hostname'));
    assert.equal(readOnly.end.outcome, 'failed');
  },
);

localTest(
  'a program whose interpreter jobs cannot see is refused with the message of the sandbox',
  { sandbox: localSandbox() },
  async (h) => {
    const job = await h.newJob(argv('./tool'));
    await writeInput(job, 'tool', `#!${join(h.root, 'interpreter')}\n`);
    await writeFile(join(h.root, 'interpreter'), '#!/bin/sh\n', { mode: 0o755 });
    await chmod(join(job.workspace.directory, 'tool'), 0o755);
    await h.engine.submit(job, neverAborted);
    const end = await waitUntilFinished(h.engine, job.jobId);
    assert.deepEqual([end.outcome, end.startedAt], ['rejected', null]);
    assert.match(end.reason, /could not be started: .*tool: No such file/);
  },
);

localTest(
  'a sandbox that cannot be set up is a failure of the machine, not of the job',
  { sandbox: localSandbox({ program: '/bin/false' }) },
  async (h) => {
    const { end } = await run(h, {});
    assert.deepEqual([end.outcome, end.startedAt], ['node_failed', null]);
    assert.match(end.reason, /its sandbox could not be set up/);
  },
);

localTest(
  'a missing bubblewrap is a failure of the machine, not of the command',
  { sandbox: localSandbox({ program: '/nowhere/bwrap' }) },
  async (h) => {
    const { end } = await run(h, {});
    assert.deepEqual([end.outcome, end.reason], ['node_failed', '/nowhere/bwrap: it could not be started (ENOENT)']);
  },
);

async function runWith(sandbox: LocalSandbox, overrides: Parameters<LocalHarness['newJob']>[0]) {
  const h = await localHarness({ sandbox });
  try {
    return await run(h, overrides);
  } finally {
    await h.close();
  }
}

test('a private file that vanishes before it can be hidden does not fail the job', needsRoot, async (t) => {
  const program = await createBubblewrapWithoutFile(t);
  const { end, stdout } = await runWith(localSandbox({ program }), shellLine('echo ran'));
  assert.deepEqual([end.outcome, stdout], ['succeeded', 'ran\n']);
});

test('a job is retried if its sandbox fails, and never after its program has started', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-attempts-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const attempts = join(folder, 'attempts');
  const count = async () => (await readFile(attempts, 'utf8')).length;
  const failing = await createBubblewrap(t, `printf . >> ${attempts}; echo 'bwrap: no space' >&2; exit 1`);
  const failed = (await runWith(localSandbox({ program: failing }), {})).end;
  assert.deepEqual([failed.outcome, failed.reason], ['node_failed', 'its sandbox could not be set up: no space']);
  const failedAttempts = await count();
  assert.ok(failedAttempts > 1);
  const working = await createBubblewrap(t, `printf . >> ${attempts}`);
  assert.equal((await runWith(localSandbox({ program: working }), shellLine('exit 1'))).end.outcome, 'failed');
  assert.equal(await count(), failedAttempts + 1);
});

test('the message of bubblewrap is read when it is complete', async (t) => {
  // In a session of its own: nothing of a job that did not start is left to kill.
  const program = await createBubblewrap(
    t,
    `setsid sh -c 'sleep 0.3; echo "bwrap: execvp ./tool: No such file" >&2' 3>&- &\nexit 1`,
  );
  const { end } = await runWith(localSandbox({ program }), {});
  assert.deepEqual([end.outcome, end.reason], ['rejected', 'its program could not be started: ./tool: No such file']);
});

localTest(
  'the shared memory of a job is as large as its memory limit',
  { sandbox: localSandbox(), memoryMb: 20 },
  async (h) => {
    const write = (mb: number) => `dd if=/dev/zero of=/dev/shm/x bs=1000000 count=${mb} 2> /dev/null`;
    assert.equal((await run(h, shellLine(write(15)))).end.outcome, 'succeeded');
    assert.equal((await run(h, shellLine(write(25)))).end.outcome, 'failed');
  },
);

for (const [name, sandbox] of [
  ['isolated', localSandbox()],
  ['not isolated', undefined],
] as const) {
  test(`jobs run as another account (${name})`, needsRoot, async () => {
    const h = await localHarness({ account, ...(sandbox ? { sandbox } : {}) });
    await chmod(h.root, 0o711);
    await chmod(join(h.root, 'records'), 0o700);
    try {
      const job = await h.newJob(
        shellLine(
          'id -u; id -g; id -G; echo $USER; cat in/data; touch in/new /dev/shm/$$ && rm /dev/shm/$$ && echo named > /dev/stdout; ls ../.. 2>&1 | wc -l; cat precious',
        ),
      );
      await writeInput(job, 'in/data', 'input\n');
      await writeFile(join(h.root, 'precious'), 'precious\n', { mode: 0o600 });
      await symlink(join(h.root, 'precious'), join(job.workspace.directory, 'precious'));
      await h.engine.submit(job, neverAborted);
      const end = await waitUntilFinished(h.engine, job.jobId);
      const stdout = await readFile(job.workspace.stdout, 'utf8');
      assert.deepEqual(stdout.split('\n').slice(0, 6), ['54321', '54322', '54322', 'jobs', 'input', 'named']);
      assert.equal(end.outcome, 'failed', 'the link to a file of root must not give it away');
      assert.equal((await stat(join(h.root, 'precious'))).uid, 0);
      assert.equal((await stat(join(job.workspace.directory, 'in/new'))).uid, account.uid);
      const { mode, uid, gid } = await stat(dirname(job.workspace.directory));
      assert.deepEqual([mode & 0o777, uid, gid], [0o710, 0, account.gid]);
      await chmod(job.workspace.directory, 0o777);
      const stranger = { uid: account.uid + 1, gid: account.gid + 1 };
      const { stderr } = spawnSync('ls', [job.workspace.directory], { ...stranger, cwd: '/', encoding: 'utf8' });
      assert.match(stderr, /Permission denied/, 'no other account can enter the workspace, even if its job allows it');
      assert.ok(!existsSync(`${job.workspace.directory}.tmp`));
    } finally {
      await h.close();
    }
  });
}

test('a program whose name contains = runs as another account', needsRoot, async () => {
  const h = await localHarness({ account, sandbox: localSandbox() });
  try {
    const job = await h.newJob(argv('./a=b', 'one two'));
    await writeInput(job, 'a=b', '#!/bin/sh\necho "$1" in "$PWD"\n');
    await chmod(join(job.workspace.directory, 'a=b'), 0o755);
    await h.engine.submit(job, neverAborted);
    assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), `one two in ${job.workspace.directory}\n`);
  } finally {
    await h.close();
  }
});

test('bubblewrap isolates jobs of an ordinary user too', needsRoot, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-user-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const directory = join(folder, 'files');
  for (const path of [folder, directory, `${directory}.tmp`]) {
    await mkdir(path, { recursive: true });
    await chown(path, account.uid, account.gid);
  }
  const args = sandboxArguments({
    directory,
    temporaryFolder: `${directory}.tmp`,
    startDirectory: directory,
    readOnly: [],
    hidden: [],
    network: false,
    disableUserNamespaces: true,
  });
  const { uid, gid } = account;
  const line =
    'touch new && id -u && ls /home /root /run/* 2>/dev/null | wc -l; touch /tmp/x || echo no; ls -d /proc/[0-9]* | wc -l; unshare -U true 2>/dev/null || echo none';
  const { stdout, stderr } = spawnSync(localSandbox().program, [...args, 'sh', '-c', line], {
    encoding: 'utf8',
    uid,
    gid,
    cwd: '/',
  });
  const [user, , processes, namespaces] = stdout.split('\n');
  assert.deepEqual([user, namespaces, stderr], ['54321', 'none', '']);
  assert.ok(Number(processes) < 10, stdout);
});
