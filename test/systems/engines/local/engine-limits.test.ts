import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat, symlink } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { assertNoProcessLeft, type LocalHarness, localTest, supervisorLog } from '../../../engines/local/harness.ts';
import { eventually, neverAborted, waitUntilFinished, waitUntilRunning } from '../../../engines/observing.ts';
import { argv, shellLine, writeInput } from '../../../engines/test-jobs.ts';
import { localTestWithAndWithoutIsolation } from './isolated-harness.ts';

async function run(h: LocalHarness, overrides: Parameters<LocalHarness['newJob']>[0]) {
  const job = await h.newJob(overrides);
  await h.engine.submit(job, neverAborted);
  return { job, end: await waitUntilFinished(h.engine, job.jobId) };
}

localTestWithAndWithoutIsolation(
  'ends a job that exceeds the output limit, and keeps its output up to the limit',
  { outputKb: 50 },
  async (h) => {
    const { job, end } = await run(h, shellLine('yes'));
    assert.deepEqual([end.outcome, end.exitCode], ['output_exceeded', null]);
    assert.match(end.reason, /50 kB to stdout/);
    assert.equal((await stat(job.workspace.stdout)).size, 50_000);
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), 'y\n'.repeat(25_000));
  },
);

localTestWithAndWithoutIsolation(
  'detects excess output of a job that has already exited',
  { outputKb: 1 },
  async (h) => {
    const exactly = await run(h, shellLine('head -c 1000 /dev/zero >&2'));
    assert.equal(exactly.end.outcome, 'succeeded');
    const more = await run(h, shellLine('head -c 1001 /dev/zero >&2'));
    assert.equal(more.end.outcome, 'output_exceeded');
    assert.equal((await stat(more.job.workspace.stderr)).size, 1000);
  },
);

localTestWithAndWithoutIsolation(
  'applies the memory limit to all processes of a job together',
  { memoryMb: 200 },
  async (h) => {
    const hog = 'const buffer = Buffer.alloc(90e6, 1); setInterval(() => buffer.fill(2), 1000)';
    const one = await h.newJob(argv(process.execPath, '-e', hog));
    await h.engine.submit(one, neverAborted);
    const { end } = await run(h, shellLine(`'${process.execPath}' -e '${hog}' & '${process.execPath}' -e '${hog}'`));
    assert.equal(end.outcome, 'out_of_memory');
    assert.match(end.reason, /200 MB/);
    await waitUntilRunning(h.engine, one.jobId);
  },
);

localTestWithAndWithoutIsolation(
  'kills background children at the end of the job, without waiting for them',
  {},
  async (h) => {
    const { job, end } = await run(h, shellLine('sleep 600 & (trap "" TERM HUP; sleep 601) & echo done'));
    assert.equal(end.outcome, 'succeeded');
    await assertNoProcessLeft(job.jobId);
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), 'done\n');
  },
);

localTestWithAndWithoutIsolation('kills children that started a new session', {}, async (h) => {
  const stray = 'setsid sh -c "sleep 600 & touch ready; sleep 601"';
  const { job, end } = await run(h, shellLine(`${stray} & until [ -e ready ]; do sleep 0.02; done; exit 4`));
  assert.deepEqual([end.outcome, end.exitCode], ['failed', 4]);
  await assertNoProcessLeft(job.jobId);
});

localTest('does not wait for a hidden process that keeps the output pipes open', {}, async (h) => {
  const hiding = 'echo $$ > stray; exec sleep 602';
  const { job, end } = await run(
    h,
    shellLine(`env -i setsid sh -c '${hiding}' & until [ -s stray ]; do sleep 0.02; done`),
  );
  assert.equal(end.outcome, 'succeeded');
  process.kill(Number(await readFile(join(job.workspace.directory, 'stray'), 'utf8')), 'SIGKILL');
});

localTestWithAndWithoutIsolation(
  'sends SIGTERM to the job and its children before killing them',
  { killGraceSeconds: 30 },
  async (h) => {
    // The signal kills the shell at once; its child has time to save its results.
    const child = 'trap "sleep 0.3; echo saved; exit" TERM; touch ready; while :; do sleep 0.05; done';
    const job = await h.newJob(shellLine(`sh -c '${child}'; true`));
    await h.engine.submit(job, neverAborted);
    await eventually('the child is ready', async () => existsSync(join(job.workspace.directory, 'ready')));
    await h.engine.cancel(job.jobId, neverAborted);
    assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'cancelled');
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), 'saved\n');
  },
);

localTestWithAndWithoutIsolation('kills a job that ignores SIGTERM', { killGraceSeconds: 0.2 }, async (h) => {
  const { job, end } = await run(h, { ...shellLine('trap "" TERM; while :; do sleep 0.05; done'), runtimeSeconds: 1 });
  assert.deepEqual([end.outcome, end.reason], ['timed_out', 'it reached its time limit of 1 s']);
  await assertNoProcessLeft(job.jobId);
});

localTestWithAndWithoutIsolation('gives jobs a minimal environment', {}, async (h) => {
  process.env.BURSAR_TEST_SECRET = 'hunter2';
  try {
    const { job } = await run(h, { ...argv('env', '-0'), nodes: 2, coresPerNode: 3 });
    const text = await readFile(job.workspace.stdout, 'utf8');
    const env = Object.fromEntries(
      text
        .split('\0')
        .filter(Boolean)
        .map((pair) => pair.split(/=(.*)/s, 2)),
    );
    const { PATH, USER, LOGNAME, PWD, ...rest } = env;
    // Bubblewrap sets it, as a shell does.
    assert.equal(PWD, h.options.sandbox ? job.workspace.directory : undefined);
    assert.ok(PATH.includes('/bin') && !PATH.includes('node_modules'));
    assert.equal(USER, LOGNAME);
    assert.deepEqual(rest, {
      HOME: job.workspace.directory,
      TMPDIR: `${job.workspace.directory}.tmp`,
      LANG: 'C.UTF-8',
      BURSAR_JOB_ID: job.jobId,
      BURSAR_NODES: '2',
      BURSAR_CORES_PER_NODE: '3',
      BURSAR_RUNTIME_SECONDS: '600',
    });
    assert.equal(await readFile(supervisorLog, 'utf8'), '');
  } finally {
    delete process.env.BURSAR_TEST_SECRET;
  }
});

localTestWithAndWithoutIsolation(
  'creates private files, passes no file descriptors of the engine, and removes the scratch folder',
  {},
  async (h) => {
    const listing = 'umask; cat; mktemp >/dev/null; ls -l /proc/self/fd';
    const { job, end } = await run(h, shellLine(listing));
    assert.equal(end.outcome, 'succeeded');
    const text = await readFile(job.workspace.stdout, 'utf8');
    assert.match(text, /^0077\n/);
    assert.doesNotMatch(text, /socket|supervisor|json/);
    assert.equal((await stat(job.workspace.stdout)).mode & 0o777, 0o600);
    assert.deepEqual((await readdir(join(job.workspace.directory, '..'))).sort(), ['stderr', 'stdout', 'work']);
  },
);

localTestWithAndWithoutIsolation('jobs have a lower priority than the server', {}, async (h) => {
  // Linux may give each session, and so each job, an equal part of the CPU: then the priority of its session counts.
  const untilSession = 'f=/proc/self/autogroup; [ ! -e $f ] || until grep -q "nice 5" $f; do sleep 0.05; done';
  const { job } = await run(h, shellLine(`nice; ${untilSession}`));
  assert.equal(Number(await readFile(job.workspace.stdout, 'utf8')), Math.min(19, getPriority() + 5));
});

localTest('does not write output through a symbolic link', {}, async (h) => {
  const job = await h.newJob(shellLine('echo mine'));
  await writeInput(job, 'precious', 'precious');
  await symlink(join(job.workspace.directory, 'precious'), job.workspace.stdout);
  await h.engine.submit(job, neverAborted);
  await waitUntilFinished(h.engine, job.jobId);
  assert.equal(await readFile(join(job.workspace.directory, 'precious'), 'utf8'), 'precious');
  assert.equal(await readFile(job.workspace.stdout, 'utf8'), 'mine\n');
});

localTestWithAndWithoutIsolation('rejects a command that the operating system cannot start', {}, async (h) => {
  for (const overrides of [shellLine('a\0b'), argv('echo', 'x'.repeat(200_000))]) {
    const { end } = await run(h, overrides);
    assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['rejected', null, 0]);
  }
});
