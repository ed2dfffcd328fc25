import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { replacedCommands } from '../../../../src/engines/slurm/steps.ts';
import { processesMentioning } from '../../../engines/local/harness.ts';
import { eventually, neverAborted } from '../../../engines/observing.ts';
import { attempt, killGroup } from '../../../support/attempt.ts';
import { slurmIsolation } from '../../../support/bubblewrap.ts';
import { readProcessFile } from '../../../support/process-file.ts';
import { assertTwoNodeStep, runJob } from './isolated-jobs.ts';
import { type SlurmHarness, slurmHarness } from './slurm-harness.ts';

/** slurmstepd starts the wrapper of a job, and the first process of each task. */
const isChildOfSlurm = (pid: number) => {
  const parent = /^PPid:\s*(\d+)/m.exec(readProcessFile(pid, 'status'))?.[1];
  return parent !== undefined && readProcessFile(parent, 'comm').startsWith('slurmstepd');
};

describe('srun in isolated jobs', { concurrency: 4 }, () => {
  let harness: SlurmHarness;
  before(async () => {
    harness = await slurmHarness({ isolation: slurmIsolation() });
  });
  after(() => harness.close());
  const run = (...args: Parameters<typeof runJob> extends [unknown, ...infer Rest] ? Rest : never) =>
    runJob(harness, ...args);

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
      `for i in 1 2 3; do srun -n1 -w ${harness.cluster.nodes[0]} --overlap bash -c '${step}' & done; wait`,
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
    const [killed, running] = ['killed', 'running'].map((name) => `/dev/shm/bursar-${name}-${process.pid}`) as [
      string,
      string,
    ];
    // Tasks of other tests remove a folder that is not locked yet, if it has the name of shared memory.
    const unlocked = `/dev/shm/unlocked-${process.pid}`;
    t.after(() => Promise.all([killed, running, unlocked].map((name) => rm(name, { recursive: true, force: true }))));
    // Readable by the owner only: tests of attacks watch such folders.
    for (const name of [killed, unlocked]) await mkdir(name, { mode: 0o700 });
    const holder = spawn('flock', ['-s', unlocked, 'sleep', '600'], { detached: true, stdio: 'ignore' });
    t.after(() => killGroup(holder.pid));
    await eventually('the folder is locked', async () => spawnSync('flock', ['-n', unlocked, 'true']).status === 1);
    await rename(unlocked, running);
    const { end, stderr } = await run('srun -N1 -n1 true');
    assert.equal(end.outcome, 'succeeded', stderr);
    // A task of another test may be removing it.
    await eventually('the folder of the killed task is removed', async () => !existsSync(killed));
    assert.equal(existsSync(running), true);
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
    test(`if the ${name} is killed, nothing inside the isolation is left`, async () => {
      const line = `${launcher} bash -c 'setsid -f sleep 600; echo ran >> runs; sleep 600'`;
      const { end } = await run(line, {}, async ({ jobId }) => {
        const isInside = (pid: number) => attempt(() => readlinkSync(`/proc/${pid}/ns/pid`) !== ownNamespace);
        const ownNamespace = readlinkSync('/proc/self/ns/pid');
        const inside = () => processesMentioning(jobId).filter(isInside);
        assert.ok(inside().length >= 2);
        const children = new Set(processesMentioning(jobId).filter(isChildOfSlurm));
        const killed = [...children].filter((pid) => readProcessFile(pid, 'cmdline').includes(program));
        assert.equal(killed.length, 1);
        for (const pid of killed) process.kill(pid, 'SIGKILL');
        await eventually('nothing is left', async () => inside().length === 0);
      });
      assert.equal(end.outcome, 'failed');
    });
  }

  test('a cancelled job and its tasks can end in order', async () => {
    const task = 'trap "echo task; exit 1" TERM; touch ready.$SLURM_PROCID; while true; do sleep 0.05; done';
    // The end of the script ends everything inside, also what copies the output of the tasks.
    const line = `trap 'wait $srun; echo batch; exit 5' TERM
      srun -n2 -N2 bash -c '${task}' & srun=$!
      until [ -e ready.0 ] && [ -e ready.1 ]; do sleep 0.05; done
      echo ran >> runs; wait; wait`;
    // Slurm's srun gets the signal too, and kills tasks whose node is slower to pass it on.
    await eventually('a job and its tasks end in order', async () => {
      const { job, end, lines } = await run(line, {}, ({ jobId }) => harness.engine.cancel(jobId, neverAborted));
      assert.equal(end.outcome, 'cancelled');
      const records = await harness.engine.readEndRecords(new Map([[job.jobId, job.workspace]]), neverAborted);
      const record = records.get(job.jobId);
      const exitCode = typeof record === 'object' && record.exitCode;
      return lines.toSorted().join() === 'batch,task,task' && exitCode === 5;
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
    // Two programs inside the isolation looked for the library, `env` and `echo`, and none outside.
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
});
