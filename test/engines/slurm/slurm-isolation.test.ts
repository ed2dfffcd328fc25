import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { homedir, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { createSlurmEngine } from '../../../src/engines/slurm/engine.ts';
import type { SlurmIsolation } from '../../../src/engines/slurm/isolation.ts';
import { replacedCommands } from '../../../src/engines/slurm/srun-program.ts';
import { buildWrapperScript } from '../../../src/engines/slurm/wrapper.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import { quoteForBash } from '../../../src/shell/quote.ts';
import { temporaryFolder } from '../../files/temporary.ts';
import { attempt } from '../../support/attempt.ts';
import { slurmIsolation } from '../../support/bubblewrap.ts';
import { type JobOverrides, withAutomaticRelease } from '../engine-harness.ts';
import { newLocalJob, processesMentioning } from '../local/harness.ts';
import { eventually, neverAborted, waitUntilFinished } from '../observing.ts';
import { countRuns, shellLine } from '../test-jobs.ts';
import { type SlurmHarness, shellAs, slurmHarness, slurmSshHarness } from './slurm-harness.ts';

const twoNodes = { nodes: 2, coresPerNode: 2 };

/** Submits a job, and returns its end and its output. `onStart` is called when the job has called `echo ran >> runs`. */
async function runJob(
  { engine, newJob }: Pick<SlurmHarness, 'engine' | 'newJob'>,
  line: string,
  overrides: JobOverrides = {},
  onStart?: (job: EngineJob) => Promise<void>,
) {
  const job = await newJob({ ...twoNodes, ...shellLine(line), ...overrides });
  await withAutomaticRelease(engine).submit(job, neverAborted);
  if (onStart !== undefined) {
    await eventually('the job has started', async () => (await countRuns(job)) > 0);
    await onStart(job);
  }
  const end = await waitUntilFinished(engine, job.jobId);
  const [stdout, stderr] = await Promise.all([
    readFile(job.workspace.stdout, 'utf8'),
    readFile(job.workspace.stderr, 'utf8'),
  ]);
  return { job, end, stdout, stderr, lines: stdout.split('\n').filter(Boolean) };
}

/** slurmstepd starts the wrapper of a job, and the first process of each task. */
const isChildOfSlurm = (pid: number) =>
  attempt(() => {
    const parent = /^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return readFileSync(`/proc/${parent}/comm`, 'latin1').startsWith('slurmstepd');
  });

const twoNodeStep = `
mkdir sub; cd sub
export GREETING='two  "words"
and a line'
srun -l -N2 --ntasks=2 bash -c '
  echo "$SLURMD_NODENAME $(pwd)"; echo "error of $SLURM_PROCID" >&2
  echo "$GREETING" > "$SLURM_PROCID"; exit $((SLURM_PROCID * 3))'
echo "code $?"
`;

async function assertTwoNodeStep(harness: SlurmHarness): Promise<void> {
  const { job, end, stdout, stderr, lines } = await runJob(harness, twoNodeStep);
  assert.equal(end.outcome, 'succeeded', stderr);
  const folder = join(job.workspace.directory, 'sub');
  assert.deepEqual(lines.toSorted(), [`0: n1 ${folder}`, `1: n2 ${folder}`, 'code 3'], stdout);
  assert.match(stderr, /^0: error of 0$/m);
  assert.match(stderr, /^1: error of 1$/m);
  assert.match(stderr, /^srun: error: n2: task 1: Exited with exit code 3$/m);
  for (const task of ['0', '1']) assert.equal(await readFile(join(folder, task), 'utf8'), 'two  "words"\nand a line\n');
}

describe('isolated jobs on Slurm', { concurrency: 4 }, () => {
  let harness: SlurmHarness;
  before(async () => {
    harness = await slurmHarness({ isolation: slurmIsolation() });
  });
  after(() => harness.close());
  const run = (...args: Parameters<typeof runJob> extends [unknown, ...infer Rest] ? Rest : never) =>
    runJob(harness, ...args);

  /** Runs a job with other settings on the same cluster. */
  async function runWith(
    isolation: SlurmIsolation,
    environment: Record<string, string>,
    line: string,
    configuredVariables: readonly string[] = [],
  ) {
    const shell = createLocalShell({ environment: { ...harness.cluster.env, ...environment } });
    const options = {
      shell,
      isolation,
      configuredVariables,
      accounting: 'completion',
      commandTimeoutMs: 30_000,
    } as const;
    return await runJob({ ...harness, engine: createSlurmEngine({ ...options, onCommand: () => undefined }) }, line);
  }

  test('srun starts tasks on two nodes with labels, two outputs, folder, variables and exit code', async () => {
    await assertTwoNodeStep(harness);
  });

  test('srun passes its input on, opens files, and sets the variables that --export names', async () => {
    const { job, lines, stderr } = await run(`
      printf 'a\\nb\\n' | srun -N1 -n1 cat
      srun -n1 -N1 -o out.%j bash -c 'echo output; echo error >&2' && cat out.$SLURM_JOB_ID
      echo input > in; srun -n1 -N1 -i in -e errors bash -c 'cat; echo separate >&2'; cat errors
      export A=1 B=2
      srun -n1 -N1 bash -c 'echo "$A$B$SLURM_NTASKS"'
      srun -n1 -N1 --export=B,C=3 bash -c 'echo "$A$B$C"'
      srun -n1 -N1 --export NONE bash -c 'echo "$A$B$HOME"'
      SRUN_CPUS_PER_TASK=2 srun -n1 -N1 bash -c 'echo "$SLURM_CPUS_PER_TASK"'
      srun -lN1 -n 1 -D / pwd
      cp /bin/echo a=b; srun -N1 -n1 ./a=b 'a program'
      srun --version | cut -c 1-5
      srun --mpi=pmi2 -n1 -N1 bash -c '[ -S /proc/self/fd/$PMI_FD ] && echo "connected to PMI"'`);
    const home = job.workspace.directory;
    const expected = [
      'a',
      'b',
      'output',
      'error',
      'input',
      'separate',
      '121',
      '23',
      home,
      '2',
      '0: /',
      'a program',
      'slurm',
      'connected to PMI',
    ];
    assert.deepEqual(lines, expected, stderr);
  });

  test('steps run at the same time, tasks on a node share /dev/shm, and nothing is left of it', async () => {
    // Every step waits for the others.
    const step = 'touch /dev/shm/$SLURM_STEP_ID; until [ $(ls /dev/shm | wc -l) = 3 ]; do sleep 0.02; done';
    const { job, end, stderr } = await run(
      `for i in 1 2 3; do srun -n1 -w n1 --overlap bash -c '${step}' & done; wait`,
    );
    assert.equal(end.outcome, 'succeeded', stderr);
    assert.ok(!existsSync(`/dev/shm/bursar-${job.jobId}`));
    await eventually('no process is left', async () => processesMentioning(job.jobId).length === 0);
    assert.deepEqual(readdirSync(join(job.workspace.directory, '..')).toSorted(), [
      'stderr',
      'stdout',
      'work',
      'work.started',
      'work.tmp',
    ]);
  });

  test('a task removes the shared memory of tasks that were killed, and no other', async (t) => {
    const names = ['killed', 'running'].map((name) => `/dev/shm/bursar-${name}-${process.pid}`);
    // Readable by the owner only: tests of attacks watch such folders.
    for (const name of names) await mkdir(name, { mode: 0o700 });
    t.after(() => Promise.all(names.map((name) => rm(name, { recursive: true, force: true }))));
    const running = spawn('flock', ['-s', names[1] ?? '', 'sleep', '600'], { detached: true, stdio: 'ignore' });
    t.after(() => process.kill(-(running.pid ?? 0), 'SIGKILL'));
    await eventually(
      'the folder is locked',
      async () => spawnSync('flock', ['-n', names[1] ?? '', 'true']).status === 1,
    );
    const { end, stderr } = await run('srun -N1 -n1 true');
    assert.equal(end.outcome, 'succeeded', stderr);
    assert.deepEqual(names.map(existsSync), [false, true]);
  });

  test('a task cannot open the shared memory of its job to other accounts', async () => {
    const line =
      'srun -N1 -n1 bash -c "chmod 777 /dev/shm; touch /dev/shm/file; echo ran >> runs; until [ -e end ]; do sleep 0.05; done"';
    const { end, stderr } = await run(line, {}, async ({ jobId, workspace }) => {
      const folder = `/dev/shm/bursar-${jobId}`;
      assert.equal((await stat(folder)).mode & 0o777, 0o700);
      assert.deepEqual(readdirSync(folder, { recursive: true }).toSorted(), ['files', 'files/file']);
      await writeFile(join(workspace.directory, 'end'), '');
    });
    assert.equal(end.outcome, 'succeeded', stderr);
  });

  test('signals reach the tasks, and a killed srun ends its step', async () => {
    const { lines, stderr } = await run(`
      start() { srun -n1 -N1 --overlap bash -c "trap 'echo $2; exit 8' $1; touch ready.$1; while true; do sleep 0.05; done" & }
      start USR1 caught; until [ -e ready.USR1 ]; do sleep 0.05; done; kill -USR1 $!; wait $!; echo "code $?"
      start KILL never; until [ -e ready.KILL ]; do sleep 0.05; done; kill -KILL $!; wait $! 2> /dev/null; echo "code $?"
      srun -n1 -N1 bash -c 'kill -SEGV $$'; echo "code $?"
      srun -N1 -n1 --exclusive -c2 echo free`);
    // Only if the killed step has ended, both cores of the node are free.
    assert.deepEqual(lines, ['caught', 'code 8', 'code 137', 'code 139', 'free'], stderr);
  });

  for (const [name, launcher, program] of [
    ['wrapper of a job', '', 'slurm_script'],
    ['first process of a task', 'srun -N1 -n1', '.steps/task'],
  ] as const) {
    test(`if the ${name} is killed, nothing inside of the isolation is left`, async () => {
      const line = `${launcher} bash -c 'setsid -f sleep 600; echo ran >> runs; sleep 600'`;
      const { end } = await run(line, {}, async ({ jobId }) => {
        const isInside = (pid: number) => attempt(() => readlinkSync(`/proc/${pid}/ns/pid`) !== ownNamespace);
        const ownNamespace = readlinkSync('/proc/self/ns/pid');
        const inside = () => processesMentioning(jobId).filter(isInside);
        assert.ok(inside().length >= 2);
        const children = new Set(processesMentioning(jobId).filter(isChildOfSlurm));
        const killed = [...children].filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(program));
        assert.equal(killed.length, 1);
        for (const pid of killed) process.kill(pid, 'SIGKILL');
        await eventually('nothing is left', async () => inside().length === 0);
      });
      assert.equal(end.outcome, 'failed');
    });
  }

  test('a cancelled job and its tasks can end in order', async () => {
    const task = 'trap "echo task; exit 1" TERM; touch ready.$SLURM_PROCID; while true; do sleep 0.05; done';
    const line = `trap 'sleep 0.2; echo batch; exit 5' TERM
      srun -n2 -N2 bash -c '${task}' & until [ -e ready.0 ] && [ -e ready.1 ]; do sleep 0.05; done
      echo ran >> runs; wait; wait`;
    const { job, end, lines } = await run(line, {}, ({ jobId }) => harness.engine.cancel(jobId, neverAborted));
    assert.equal(end.outcome, 'cancelled');
    assert.deepEqual(lines.toSorted(), ['batch', 'task', 'task']);
    await eventually('the end is recorded', async () => {
      const records = await harness.engine.readEndRecords(new Map([[job.jobId, job.workspace]]), neverAborted);
      const record = records.get(job.jobId);
      return typeof record === 'object' && record.exitCode === 5;
    });
  });

  test('options that could leave the isolation are refused by name, and Slurm commands are not available', async () => {
    const options = ['--task-prolog=/bin/id', '--prolog=x', '--uid=0', '--jobid=1', '--bcast', '--multi-prog'];
    const furtherOptions = ['--ntas=1', '-Ax', '--pty', '--container=x'];
    const commands = replacedCommands.filter((name) => name !== 'srun');
    const { stdout, stderr } = await run(`
      for option in ${[...options, ...furtherOptions].join(' ')}; do srun $option id; echo "$? $option"; done
      srun -n1 --nodelist=/etc/hostname id; echo "$? file"
      srun -n1 -o out.%t id; echo "$? pattern"
      srun -n1 /usr/bin/srun -n1 id; echo "$? nested"
      srun; echo "$? empty"
      for command in ${commands.join(' ')}; do $command --version; echo "$? $command"; done
      bash -lc 'squeue 2>&1' | grep -q 'squeue: error: not available in a job'; echo "$((1 - $?)) login shell"
      srun -N1 -n1 bash -c '/usr/bin/sbatch 2>&1' | grep -q 'sbatch: error: not available in a job'; echo "$((1 - $?)) task"`);
    const others = ['login shell', 'task'];
    const names = [...options, ...furtherOptions, 'file', 'pattern', 'nested', 'empty', ...commands, ...others];
    assert.deepEqual(
      stdout.split('\n').filter(Boolean),
      names.map((name) => `1 ${name}`),
      stderr,
    );
    for (const option of ['--task-prolog', '--uid', '--ntas', '-A', '--container'])
      assert.match(
        stderr,
        new RegExp(`^srun: error: the option ${option} is not available in a job; available are: `, 'm'),
      );
    for (const command of commands) assert.match(stderr, new RegExp(`^${command}: error: not available in a job`, 'm'));
  });

  test('requests that do not come from the srun of Bursar are checked too', async () => {
    const { job, stdout, stderr } = await run(`
      request() {
        id=1.$RANDOM at=/run/bursar/$id
        echo $id > /run/bursar/requests; until [ -p $at/arguments ]; do sleep 0.01; done
        (cat $at/stdout > output.$id & cat $at/stderr > errors.$id & : > $at/stdin & exec 9<> $at/signals
         printf '%s\\0' "\${count-$#}" "$@" > $at/arguments; wait; echo "$(cat $at/status) $(grep -c 'not available' errors.$id)$(cat output.$id)")
      }
      request --task-prolog=/bin/id -- / -- id
      request --ntasks=1 : --task-prolog=/bin/id -- / -- id
      request $'--ntasks=1\\n--uid=1' -- / -- id
      request --nodelist=./hosts -- / -- id
      request --ntasks=1 --output=/tmp/x -- / -- id
      request id
      request --ntasks=1 --nodes=1 -- / SLURM_CONF=/x LD_PRELOAD=$PWD/x.so -- echo done : --task-prolog=/bin/id
      count=5 request --ntasks=1 --nodes=1 -- / -- echo cut
      echo ../../x > /run/bursar/requests; echo > /run/bursar/requests
      for file in requests bin/srun task; do echo x > /run/bursar/$file.new; rm /run/bursar/$file; done 2> refusals; wc -l < refusals`);
    assert.deepEqual(
      stdout.split('\n').filter(Boolean),
      [...Array(6).fill('1 1'), '0 0done : --task-prolog=/bin/id', '1 0', '6'],
      stderr,
    );
    // Two programs inside of the isolation looked for the library, `env` and `echo`, and none outside.
    const errors = await Promise.all(
      readdirSync(job.workspace.directory)
        .filter((name) => name.startsWith('errors'))
        .map((name) => readFile(join(job.workspace.directory, name), 'utf8')),
    );
    assert.equal(errors.join('').match(/LD_PRELOAD/g)?.length, 2);
  });

  test('a command that is too long is refused, not cut', async () => {
    const { lines, stderr } = await run(`
      x=$(printf %100000s)
      srun -N1 -n1 bash -c 'echo $#' bash "$x" "$x" "$x" "$x" "$x"
      srun -N1 -n1 bash -c 'echo $#' bash "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x"; echo "code $?"`);
    assert.deepEqual(lines, ['5', 'code 1'], stderr);
    assert.match(stderr, /^srun: error: the command and its variables have 11\d{5} bytes, and 1048576 are possible/m);
  });

  test('neither the job nor a task reaches other jobs, the account, its records or the scheduler', async () => {
    const { cluster, newJob } = harness;
    const neighbour = await newJob();
    await writeFile(join(neighbour.workspace.directory, 'result'), 'secret');
    await mkdir(join(cluster.folder, 'data'), { recursive: true });
    await writeFile(join(cluster.folder, 'data', 'bursar.db'), 'secret');
    const paths = [
      join(neighbour.workspace.directory, 'result'),
      join(cluster.folder, 'data', 'bursar.db'),
      join(cluster.folder, 'sock/munge'),
      cluster.env.SLURM_CONF,
      join(cluster.folder, 'spool'),
      '/run/munge',
      homedir(),
      '/etc/munge/munge.key',
      '"$HOME.started"',
      '"$HOME.steps"',
      '"$HOME/../stdout"',
      `/proc/${process.pid}`,
    ];
    const attempt = `for path in ${paths.join(' ')}; do [ ! -e "$path" ] || echo "$path"; done; kill -0 ${process.pid} && echo signalled; touch /usr/x "$HOME/../x" /etc/x && echo written`;
    const { end, lines, stderr } = await run(`${attempt}; srun -l -N2 -n2 bash -c ${quoteForBash(attempt)}; echo end`);
    assert.deepEqual([lines, end.outcome], [['end'], 'succeeded'], stderr);
  });

  test('a task sees the folder through which PMIx reaches slurmd, and nothing beside it', async (t) => {
    const spool = await mkdtemp(join(homedir(), '.bursar-spool-'));
    t.after(() => rm(spool, { recursive: true, force: true }));
    for (const name of ['pmix.1.0', 'other']) await mkdir(join(spool, name));
    // Slurm's plugin for PMIx sets it for each task.
    const environment = { PMIX_SERVER_TMPDIR: `${spool}/pmix.1.0/` };
    const line = `srun -N1 -n1 bash -c 'touch $PMIX_SERVER_TMPDIR/file; ls -A ${homedir()} ${spool}'`;
    const { lines, stderr } = await runWith(slurmIsolation(), environment, line, ['PMIX_SERVER_TMPDIR']);
    assert.deepEqual(lines, [`${homedir()}:`, basename(spool), `${spool}:`, 'pmix.1.0'], stderr);
    assert.ok(existsSync(join(spool, 'pmix.1.0/file')));
  });

  test('a task inherits no folder that is open outside, also if its /dev/shm is removed while it starts', async () => {
    for (const [name, failure] of [
      ['removed', 'rmdir "$(readlink /proc/self/fd/$2)" && touch "$0.called"'],
      ['not locked', 'exit 1'],
    ]) {
      const bin = join(harness.cluster.folder, `bin ${name}`);
      await mkdir(bin);
      const flock = `#!/bin/bash\n[ "$1" != -s ] || [ -e "$0.called" ] || { ${failure}; }\nexec /usr/bin/flock "$@"\n`;
      await writeFile(join(bin, 'flock'), flock, { mode: 0o755 });
      const list = 'for file in /proc/self/fd/*; do [ ! -d "$file" ] || readlink "$file"; done; echo end';
      const line = `srun -N1 -n1 bash -c ${quoteForBash(list)}`;
      const { lines, stderr } = await runWith(slurmIsolation(), { PATH: `${bin}:${process.env.PATH}` }, line);
      assert.deepEqual(lines, ['end'], `${name}: ${stderr}`);
      assert.equal(existsSync(join(bin, 'flock.called')), name === 'removed');
    }
  });

  test('a job that cannot be isolated is not started, unless isolation is not required', async () => {
    const optional = slurmIsolation({ required: false });
    const line = 'ls -d ~+/../work.started; srun -N1 -n1 echo task';
    const cases = [
      // As where user namespaces are not allowed.
      [
        'bwrap',
        'echo "bwrap: No permissions" >&2; exit 1',
        'bwrap: No permissions\nbursar: docs/security.md says what',
      ],
      // As on a file system without FIFOs.
      [
        'mkfifo',
        'echo "mkfifo: not permitted" >&2; exit 1',
        'srun cannot be prepared (mkfifo: not permitted)\nbursar: the folder of',
      ],
      ['find', 'exit 1', 'the private files in /etc cannot be listed (find)\nbursar: docs'],
    ] as const;
    for (const [program, body, message] of cases) {
      const bin = join(harness.cluster.folder, `bin-${program}`);
      await mkdir(bin);
      await writeFile(join(bin, program), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
      const broken = { PATH: `${bin}:${process.env.PATH}` };
      const refused = await runWith(slurmIsolation(), broken, 'echo ran >> runs');
      assert.deepEqual([refused.end.outcome, refused.end.startedAt], ['node_failed', null], refused.stderr);
      assert.match(refused.end.reason, /could not be started on its node, nothing of it ran, and nothing is charged/);
      assert.match(refused.stderr, /cannot be isolated on \S+: /);
      assert.ok(refused.stderr.includes(`: ${message}`), refused.stderr);
      assert.equal(await countRuns(refused.job), 0);
      const { directory } = refused.job.workspace;
      assert.ok(!existsSync(`${directory}.started`) && !existsSync(`${directory}.steps`));

      const notIsolated = await runWith(optional, broken, line);
      assert.deepEqual([notIsolated.end.outcome, notIsolated.lines[1]], ['succeeded', 'task'], notIsolated.stderr);
    }
    assert.deepEqual((await runWith(optional, {}, line)).lines, ['task']);
  });

  test('a hidden path that does not exist on the node is ignored, and others in it stay hidden', async () => {
    const { folder } = harness.cluster;
    const software = join(folder, 'mixed');
    await mkdir(join(software, 'data/tools'), { recursive: true });
    await writeFile(join(software, 'data/secret'), '');
    await writeFile(join(software, 'password'), 'secret');
    const hidden = [
      ...['/usr/absent/data', '/etc/absent', join(software, 'absent'), join(software, 'data')].map(
        (path) => ({ path, kind: 'folder' }) as const,
      ),
      ...['/etc/absent.yaml', join(software, 'password')].map((path) => ({ path, kind: 'file' }) as const),
    ];
    const line = `cd ${software} && cat password; ls . data; touch data/x || echo read-only`;
    const readOnly = [software, join(software, 'data/tools')];
    const { end, lines, stderr } = await runWith(slurmIsolation({ hidden, readOnly }), {}, line);
    assert.equal(end.outcome, 'succeeded', stderr);
    assert.deepEqual(lines, ['.:', 'data', 'password', 'data:', 'tools', 'read-only'], stderr);
  });

  test('a job whose workspace is in /tmp cannot create folders outside by a link in its /tmp', async () => {
    const outside = await mkdtemp(join(harness.cluster.folder, 'outside-'));
    const name = basename(harness.cluster.folder);
    // While bubblewrap prepares a sandbox, it has the host in /oldroot.
    const { lines, stderr } = await run(`
      mv /var/tmp/${name} /var/tmp/moved; ln -sT /oldroot${outside} /var/tmp/${name}; srun -N1 -n1 true; echo end`);
    assert.deepEqual(lines, ['end'], stderr);
    assert.deepEqual(readdirSync(outside), [], stderr);
  });

  test('a job is not started if a folder of readOnly shows hidden files under any name', async () => {
    const { folder } = harness.cluster;
    const at = (name: string) => join(folder, name);
    for (const name of ['nfs/data', 'nfs/tools']) await mkdir(at(name), { recursive: true });
    await symlink(at('nfs'), at('software'));
    await symlink(at('nfs/data'), at('data-link'));
    await symlink(homedir(), at('home-link'));
    const hide = (name: string) => [{ path: at(name), kind: 'folder' } as const];
    const tools = slurmIsolation({ readOnly: [at('nfs/tools')], hidden: hide('nfs/data') });
    const cases = [
      ['the home of the account', slurmIsolation({ readOnly: [homedir()] }), homedir()],
      ['its home behind a link', slurmIsolation({ readOnly: [at('home-link')] }), at('home-link')],
      [
        'a hidden folder that is a link',
        slurmIsolation({ readOnly: [at('nfs')], hidden: hide('data-link') }),
        at('nfs/data'),
      ],
      [
        'a readable folder that is a link',
        slurmIsolation({ readOnly: [at('software')], hidden: hide('nfs/data') }),
        at('software/data'),
      ],
      ['a folder that is hidden', slurmIsolation({ readOnly: [at('nfs')], hidden: hide('nfs/data') }), null],
      ['a folder beside', tools, null],
    ] as const;
    await Promise.all(
      cases.map(async ([name, isolation, shown]) => {
        const { end, stderr } = await runWith(isolation, {}, 'true');
        assert.equal(end.outcome, shown === null ? 'succeeded' : 'node_failed', `${name}: ${stderr}`);
        if (shown !== null)
          assert.ok(
            stderr.includes(` as ${shown}, inside of `) &&
              stderr.includes('list folders in readOnly that do not contain'),
            stderr,
          );
      }),
    );
  });

  test('with scheduler: true a job can use the commands of Slurm', async () => {
    const line = 'squeue -h -o %j; srun -N2 -n2 echo task; ls -A ~/..';
    const { job, lines, stderr } = await runWith(slurmIsolation({ scheduler: true }), {}, line);
    assert.ok(lines.includes(job.jobId), stderr);
    assert.deepEqual(lines.slice(-4), ['task', 'task', 'work', 'work.tmp']);
  });

  test('a job gets an explicit environment, not the one that start-up files have set', async () => {
    const startUpFile = join(harness.cluster.folder, 'start-up');
    await writeFile(startUpFile, 'export SECRET=1 SBATCH_COMMENT=x; f() { :; }; export -f f\n');
    const environment = { BASH_ENV: startUpFile, SITE: 'here' };
    const { stdout, stderr } = await runWith(slurmIsolation(), environment, 'env; srun -n1 -N1 env', ['SITE']);
    assert.doesNotMatch(stdout, /SECRET|SBATCH|BASH_FUNC|BASH_ENV/);
    for (const line of ['SITE=here', `USER=${userInfo().username}`, 'SLURM_JOB_NUM_NODES=2', 'SLURM_STEP_NUM_TASKS=1'])
      assert.ok(stdout.split('\n').includes(line), `${line} is missing in ${stdout}${stderr}`);
  });
});

/** Runs jobs as an ordinary account, which needs user namespaces for bubblewrap. */
describe('isolated jobs of an ordinary account on Slurm', {
  skip: process.getuid?.() === 0 ? false : 'needs root',
}, () => {
  let harness: SlurmHarness;
  before(async () => {
    harness = await slurmHarness({ isolation: slurmIsolation() });
  });
  after(() => harness.close());

  async function runAs(account: string, line: string) {
    const { shell, newJob } = harness;
    const engine = createSlurmEngine({
      shell: shellAs(account, shell),
      isolation: slurmIsolation(),
      accounting: 'none',
      commandTimeoutMs: 30_000,
      onCommand: () => undefined,
    });
    const newJobOfAccount = async (overrides?: JobOverrides) => {
      const job = await newJob(overrides);
      execFileSync('chown', ['-R', account, join(job.workspace.directory, '..')]);
      return job;
    };
    return await runJob({ engine, newJob: newJobOfAccount }, line);
  }

  test('srun works, and the private files of the account in /etc are hidden, whatever their names', async (t) => {
    const files = [`/etc/bursar-test-${process.pid}`, `/etc/bursar-test-${process.pid} `];
    t.after(() => Promise.all(files.map((file) => rm(file, { force: true }))));
    for (const file of files) await writeFile(file, 'secret', { mode: 0o400 });
    execFileSync('chown', ['nobody', ...files]);
    const list = files.map(quoteForBash).join(' ');
    const read = `id -u; cat ${list}; ls -A ~/..`;
    const { end, lines, stderr } = await runAs('nobody', `${read}; srun -N1 -n1 bash -c ${quoteForBash(read)}`);
    assert.equal(end.outcome, 'succeeded', stderr);
    assert.deepEqual(lines, ['65534', 'work', 'work.tmp', '65534', 'work', 'work.tmp'], stderr);
  });

  test('a job is not started if the home of its account is inside of the system', async () => {
    const { end, stderr } = await runAs('daemon', 'true');
    assert.equal(end.outcome, 'node_failed', stderr);
    assert.match(stderr, /jobs could read \/\S*sbin as \/\S*sbin, inside of \//);
  });
});

test('an isolated job can end in order where env cannot restore signals', async (t) => {
  const job = await newLocalJob(
    await temporaryFolder(t),
    shellLine("trap 'echo caught; exit 3' TERM; echo ready; while true; do sleep 0.05; done"),
  );
  const script = buildWrapperScript(job, slurmIsolation());
  const wrapper = script.replaceAll('--default-signal', '--as-before-coreutils-8.31');
  assert.notEqual(wrapper, script);
  const child = spawn('bash', ['-c', wrapper], { cwd: job.workspace.directory, detached: true, stdio: 'pipe' });
  let output = '';
  child.stdout.on('data', (chunk) => {
    // Slurm signals all processes of a job.
    if (output === '') process.kill(-(child.pid ?? 0), 'SIGTERM');
    output += chunk;
  });
  assert.deepEqual(await once(child, 'close'), [3, null]);
  assert.equal(output, 'ready\ncaught\n');
});

test('srun works in isolated jobs of a cluster that is reached by ssh', async () => {
  const harness = await slurmSshHarness({ isolation: slurmIsolation() });
  try {
    await assertTwoNodeStep(harness);
  } finally {
    await harness.close();
  }
});

/** Runs the wrapper with a `bwrap` that fails at the given attempts. The first attempt is the trial. */
async function runWithFailures(t: TestContext, failing: string) {
  const folder = await temporaryFolder(t);
  const job = await newLocalJob(folder, shellLine('echo ran; exit 1'));
  const count = join(folder, 'count');
  const bwrap = join(folder, 'bwrap');
  const program = `#!/bin/bash\nprintf . >> ${count}\ncase $(wc -c < ${count}) in ${failing}) exit 1 ;; esac\nexec /usr/bin/bwrap "$@"\n`;
  await writeFile(bwrap, program, { mode: 0o755 });
  return spawnSync('bash', ['-c', buildWrapperScript(job, slurmIsolation())], {
    cwd: job.workspace.directory,
    env: { PATH: `${folder}:${process.env.PATH}` },
    encoding: 'utf8',
  });
}

test('an isolated job is started again if bubblewrap failed before its start, and never after it', async (t) => {
  const { status, stdout } = await runWithFailures(t, '2');
  assert.deepEqual([status, stdout], [1, 'ran\n']);
});

test('an isolated job that bubblewrap cannot start did not fail by itself', async (t) => {
  const { signal, status, stdout, stderr } = await runWithFailures(t, '[2-9]');
  assert.equal(stdout, '');
  assert.match(stderr, /the job was not started: bubblewrap failed on/);
  assert.ok(signal !== null || status === null || status > 128, `${signal} ${status}`);
});
