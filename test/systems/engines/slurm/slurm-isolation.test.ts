import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BatchIsolation } from '../../../../src/engines/batch/backend.ts';
import { createSlurmEngine } from '../../../../src/engines/slurm/index.ts';
import { createLocalShell } from '../../../../src/shell/local-shell.ts';
import { quoteForBash } from '../../../../src/shell/quote.ts';
import type { JobOverrides } from '../../../engines/engine-harness.ts';
import { countRuns } from '../../../engines/test-jobs.ts';
import { slurmIsolation } from '../../../support/bubblewrap.ts';
import { findProgram } from '../../../support/daemons.ts';
import { createPrivateFile, removePrivateFile } from '../../../support/private-file.ts';
import { runJob } from './isolated-jobs.ts';
import { type SlurmHarness, shellAs, slurmHarness } from './slurm-harness.ts';

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
    isolation: BatchIsolation,
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

  test('neither the job nor a task reaches other jobs, the account, its records or the scheduler', async () => {
    const { cluster, newJob } = harness;
    const neighbour = await newJob();
    await writeFile(join(neighbour.workspace.directory, 'result'), 'secret');
    await mkdir(join(cluster.folder, 'data'), { recursive: true });
    await writeFile(join(cluster.folder, 'data', 'bursar.db'), 'secret');
    const paths = [
      join(neighbour.workspace.directory, 'result'),
      join(cluster.folder, 'data', 'bursar.db'),
      join(cluster.slurmFolder, 'sock/munge'),
      cluster.env.SLURM_CONF,
      join(cluster.slurmFolder, 'spool'),
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

  test('a task inherits no folder that is open outside, even if its /dev/shm is removed while it starts', async () => {
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
    const runCase = async ([program, body, message]: (typeof cases)[number]) => {
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
    };
    // The wrapper tries several times, with pauses.
    await Promise.all(cases.map(runCase));
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
    const name = basename(harness.cluster.slurmFolder);
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
            stderr.includes(` as ${shown}, inside `) && stderr.includes('list folders in readOnly that do not contain'),
            stderr,
          );
      }),
    );
  });

  test('with scheduler: true a job can use the commands of Slurm', async () => {
    const line = 'squeue -h -o %j; srun -N2 -n2 echo task; ls -A ~/..';
    // Its programs and libraries, which are not those of the system if the tests run on another Slurm.
    const folder = dirname(dirname(findProgram('squeue')));
    const isolation = slurmIsolation({ scheduler: true, readOnly: folder === '/usr' ? [] : [folder] });
    const { job, lines, stderr } = await runWith(isolation, {}, line);
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
    const nobody = { uid: 65534, gid: 65534 };
    const files = [createPrivateFile(nobody), createPrivateFile(nobody, ' ')];
    t.after(() => files.forEach(removePrivateFile));
    const list = files.map(quoteForBash).join(' ');
    const read = `id -u; cat ${list}; ls -A ~/..`;
    const { end, lines, stderr } = await runAs('nobody', `${read}; srun -N1 -n1 bash -c ${quoteForBash(read)}`);
    assert.equal(end.outcome, 'succeeded', stderr);
    assert.deepEqual(lines, ['65534', 'work', 'work.tmp', '65534', 'work', 'work.tmp'], stderr);
  });

  test('a job is not started if the home of its account is inside the system', async () => {
    const { end, stderr } = await runAs('daemon', 'true');
    assert.equal(end.outcome, 'node_failed', stderr);
    assert.match(stderr, /jobs could read \/\S*sbin as \/\S*sbin, inside \//);
  });
});
