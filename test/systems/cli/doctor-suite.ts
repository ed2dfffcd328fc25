import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { bursarProcess } from '../../support/command-line.ts';
import { findProgram } from '../../support/daemons.ts';
import { type SlurmCluster, startCluster } from '../../support/slurm-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';

/** How Bursar reaches the cluster: further engine settings, and the name of the host in the doctor's messages. */
export interface ClusterAccess {
  engine: Record<string, unknown>;
  hostLabel: string;
  close(): Promise<void>;
}

interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  fix: string | null;
}

/** The programs that Bursar and a job need on a host. */
const tools = 'bash cat chmod date env id ls mkdir mv printf realpath rm rmdir sh tail tar touch true'.split(' ');
const slurmTools = ['sbatch', 'squeue', 'scontrol', 'scancel', 'sinfo', 'sacct', 'sacctmgr'];

export interface DoctorCluster extends SlurmCluster {
  /** The node moves away the folder that this file names, before it starts a job, as if it did not mount it. */
  hiddenFolderFile: string;
}

/** A cluster with slurmdbd and two accounts, of which the service account belongs to `gateway` only. */
export async function startDoctorCluster(): Promise<DoctorCluster> {
  const nodeFolder = await mkdtemp(join(tmpdir(), 'bursar-doctor-node-'));
  const hiddenFolderFile = join(nodeFolder, 'hidden');
  const prolog = join(nodeFolder, 'prolog');
  // Always in the configuration: a node that has just been told of a new one may start jobs with the old one.
  const hide = `[ ! -e ${hiddenFolderFile} ] || mv "$(cat ${hiddenFolderFile})" ${nodeFolder}/moved`;
  await writeFile(prolog, `#!/bin/bash\n${hide}\nexit 0\n`, { mode: 0o755 });
  const extraConf = ['AccountingStorageEnforce=associations', `Prolog=${prolog}`];
  const cluster = await startCluster({ nodes: 1, database: true, extraConf });
  for (const account of ['gateway', 'others']) cluster.run('sacctmgr', '-i', 'add', 'account', account);
  cluster.run('sacctmgr', '-i', 'add', 'user', userInfo().username, 'account=gateway');
  const stop = async () => {
    await cluster.stop();
    await rm(nodeFolder, { recursive: true });
  };
  return { ...cluster, hiddenFolderFile, stop };
}

/**
 * Causes every fault on a real cluster, or those of the host only, and checks that the doctor reports it with a fix. Each test restores the cluster,
 * so that several suites can use one cluster, one after the other.
 */
export function doctorSuite(
  name: string,
  getCluster: () => DoctorCluster,
  connect: () => Promise<ClusterAccess>,
  { onlyHostFaults = false } = {},
): void {
  /** For faults of Slurm itself and others that look the same from every host. */
  const testOnce = onlyHostFaults ? () => undefined : test;
  describe(`bursar doctor on a Slurm system, ${name}`, () => {
    let cluster: DoctorCluster;
    let access: ClusterAccess;
    let folder: string;
    before(async () => {
      cluster = getCluster();
      access = await connect();
      folder = await mkdtemp(join(tmpdir(), 'bursar-doctor-test-'));
    });
    after(async () => {
      await access.close();
      await rm(folder, { recursive: true, force: true });
    });

    /** With isolation: auto, so that jobs run where a test leaves out the programs that isolation needs. */
    const runDoctor = (engine: Record<string, unknown> = {}, ...args: string[]) =>
      runDoctorWith({ isolation: 'auto' }, engine, ...args);

    async function runDoctorWith(
      system: Record<string, unknown>,
      engine: Record<string, unknown> = {},
      ...args: string[]
    ) {
      const site = { account: 'gateway', partition: 'main' };
      const own = await mkdtemp(join(folder, 'run-'));
      const work = join(own, 'work');
      const settings = { accounting: 'sacct', workspaceFolder: work, site, ...access.engine, ...engine };
      const config = join(own, 'config.yaml');
      await writeFile(config, stringify(slurmConfig(cluster, settings, system)));
      const environment = { BURSAR_CONFIG: config, BURSAR_DATA: join(own, 'data') };
      const result = await bursarProcess(['doctor', ...args], environment);
      return { ...result, work };
    }

    /** Requires that exactly one check failed, and returns its line and the fix below it. */
    async function requireOneFault(engine: Record<string, unknown> = {}, ...args: string[]) {
      const { code, stdout, stderr, work } = await runDoctor(engine, ...args);
      const lines = stdout.split('\n');
      const faults = lines.filter((line) => line.startsWith('  ✖ '));
      assert.deepEqual([code, stderr, faults.length], [1, '', 1], stdout);
      return { fault: faults[0] ?? '', fix: lines[lines.indexOf(faults[0] ?? '') + 1] ?? '', stdout, work };
    }

    /** Creates a folder for PATH with links to `programs`, of which `scripts` replace some. */
    async function createBinFolder(programs: readonly string[], scripts: Record<string, string> = {}): Promise<string> {
      const bin = await mkdtemp(join(folder, 'bin-'));
      for (const program of programs) await symlink(findProgram(program), join(bin, program));
      for (const [program, text] of Object.entries(scripts)) {
        await rm(join(bin, program), { force: true });
        await writeFile(join(bin, program), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
      }
      return bin;
    }
    const withPath = (PATH: string) => ({ environment: { ...cluster.env, PATH } });

    const listJobs = (format: string, ...options: string[]) =>
      cluster
        .run('squeue', '-h', '-t', 'all', '-o', format, ...options)
        .trim()
        .split('\n')
        .filter(Boolean);

    test('reports every check, runs a canary job, leaves no files and exits with 0 if all checks pass', async () => {
      const jobsBefore = new Set(listJobs('%i'));
      const { code, stdout, stderr, work } = await runDoctorWith({ isolation: 'bubblewrap' }, {}, '--json');
      assert.deepEqual([code, stderr], [0, ''], stdout);
      const { bursar: general, hpc_one: findings } = JSON.parse(stdout) as Record<string, Finding[]>;
      assert.ok(general?.every(({ ok }) => ok));
      assert.deepEqual(
        findings?.map(({ check, ok, fix }) => [check, ok, fix]),
        [
          `${access.hostLabel} can be reached`,
          ...['sbatch', 'squeue', 'scontrol', 'scancel', 'sacct'].map((command) => `${command} is installed`),
          `the clock of ${access.hostLabel} is correct`,
          'the service account is authenticated',
          'the controller answers',
          'the clock of the controller is correct',
          'partition main of proj_hpc_one_01 exists',
          'the service account may use account gateway of proj_hpc_one_01',
          'one user of proj_hpc_one_01 cannot take all places of the service account',
          'Slurm accepts jobs of proj_hpc_one_01',
          `a workspace can be created on ${access.hostLabel}`,
          'a canary job runs',
          'jobs are isolated',
        ].map((check) => [check, true, null]),
      );
      const detailOf = (name: string) => findings?.find(({ check }) => check === name)?.detail ?? '';
      assert.match(detailOf('squeue is installed'), /^slurm\S* \d+\.\d+/);
      assert.match(
        detailOf('Slurm accepts jobs of proj_hpc_one_01'),
        /^a job could start using \d+ processors? on nodes n1/,
      );
      assert.deepEqual(readdirSync(work), []);
      const newJobs = listJobs('%i').filter((id) => !jobsBefore.has(id));
      const [canary = '', ...others] = listJobs('%j %T', '-j', newJobs.join());
      assert.match(canary, /^DOCTOR-[0-9A-F]{32} COMPLETED$/);
      assert.deepEqual(others, []);
    });

    testOnce('reports what jobs and tasks of srun can reach if bubblewrap does not isolate them', async () => {
      const bwrap = 'while [ $# -gt 1 ] && [ "$1" != -- ]; do shift; done; [ "$1" != -- ] || shift; exec "$@"';
      const bin = await createBinFolder([], { bwrap });
      const engine = withPath(`${bin}:${process.env.PATH}`);
      const broken = await runDoctorWith({ isolation: 'bubblewrap' }, engine);
      assert.equal(broken.code, 1);
      assert.match(
        broken.stdout,
        /✖ jobs are isolated: a job could reach the workspace of another job, .*the workspace of another job \(by a task of srun\)/,
      );
      for (const system of [{ isolation: 'auto' }, { isolation: 'bubblewrap', scheduler: true }]) {
        const { code, stdout } = await runDoctorWith(system);
        assert.equal(code, 0);
        assert.match(stdout, /! jobs are isolated: they are not \((isolation: auto|scheduler: true) /);
      }
    });

    testOnce('submits no job with --no-canary', async () => {
      const before = new Set(listJobs('%i'));
      const { code, stdout } = await runDoctor({}, '--no-canary');
      assert.equal(code, 0, stdout);
      assert.match(stdout, /✔ a workspace can be created/);
      assert.doesNotMatch(stdout, /canary/);
      // Slurm may have removed an old one meanwhile.
      assert.deepEqual(
        listJobs('%i').filter((id) => !before.has(id)),
        [],
      );
    });

    testOnce('reports that munge is down', async () => {
      await cluster.stopMunge();
      const { fault, fix } = await requireOneFault();
      await cluster.startMunge();
      assert.match(fault, /the service account is authenticated: Munge encode failed: .*Did you start munged/);
      assert.match(fix, /→ Start munged there/);
    });

    testOnce('reports that the controller is down', async () => {
      await cluster.stopController();
      const { fault, fix } = await requireOneFault();
      await cluster.startController();
      assert.match(fault, /the controller answers: slurmctld on \S+ is down/);
      assert.match(fix, /→ Check that slurmctld runs and that slurm\.conf names its host/);
    });

    testOnce(
      'reports an unknown partition, account and feature, and an account without the service account',
      async () => {
        const site = { account: 'gateway', partition: 'main' };
        const partition = await requireOneFault({ site: { ...site, partition: 'nowhere' } });
        assert.match(partition.fault, /partition nowhere of proj_hpc_one_01 exists: no such partition/);
        assert.match(partition.fix, /→ Correct site\.partition.*"sinfo" lists all partitions/);
        const account = await requireOneFault({ site: { ...site, account: 'nobodys' } });
        assert.match(account.fault, /account nobodys .*: no such account/);
        const notMember = await requireOneFault({ site: { ...site, account: 'others' } });
        assert.match(notMember.fault, /account others .*: \w+ is not a member/);
        assert.match(notMember.fix, /→ Correct site\.account.*sacctmgr add user … account=others/);
        const constraint = await requireOneFault({ site: { ...site, constraint: 'nothing' } });
        assert.match(constraint.fault, /Slurm accepts jobs of proj_hpc_one_01: .*Invalid feature specification/);
        assert.match(constraint.fix, /→ Correct the site of the system or of the project/);
      },
    );

    testOnce('warns if one user could submit as many jobs as the account may have', async () => {
      const check = 'one user of proj_hpc_one_01 cannot take all places of the service account';
      const setLimit = (jobs: number) => {
        const where = ['where', `user=${userInfo().username}`, 'account=gateway'];
        cluster.run('sacctmgr', '-i', 'modify', 'user', ...where, 'set', `MaxSubmitJobs=${jobs}`);
      };
      const readFinding = async () => {
        const { code, stdout } = await runDoctor({}, '--json', '--no-canary');
        const { hpc_one: findings } = JSON.parse(stdout) as Record<string, Finding[]>;
        const finding = findings?.find((each) => each.check === check);
        return [code, finding?.ok, finding?.detail, finding?.fix?.split(' of ')[0] ?? null];
      };
      setLimit(1000);
      const warning = 'MaxSubmitJobs is 1000, and submittedJobsPerUser is 1000';
      assert.deepEqual(await readFinding(), [0, true, warning, 'Set submittedJobsPerUser']);
      setLimit(1001);
      const detail = 'MaxSubmitJobs is 1001, and submittedJobsPerUser is 1000';
      assert.deepEqual(await readFinding(), [0, true, detail, null]);
      setLimit(-1);
      assert.deepEqual(await readFinding(), [0, true, 'MaxSubmitJobs is not set', null]);
    });

    testOnce('reports nodes that do not see the workspace folder', async () => {
      const workspaceFolder = join(folder, 'not-mounted');
      await writeFile(cluster.hiddenFolderFile, workspaceFolder);
      const { fault, fix } = await requireOneFault({ workspaceFolder });
      await rm(cluster.hiddenFolderFile);
      assert.match(fault, /a canary job runs: the job ended as (node_failed|failed)/);
      assert.match(fix, /its nodes see the workspace folder under the same path/);
    });

    testOnce('cancels a canary job that does not start within --timeout', async () => {
      const exclusive = ['--account=gateway', '--exclusive', '--output=/dev/null', '--parsable', '--wrap=sleep 600'];
      const blocker = cluster.run('sbatch', ...exclusive).trim();
      await until(
        'the node is allocated',
        () => cluster.run('squeue', '-h', '-t', 'R', '-o', '%i').includes(blocker) || undefined,
      );
      const { fault, fix, work } = await requireOneFault({}, '--timeout', '2');
      cluster.run('scancel', blocker);
      // Slurm gives a reason as soon as its scheduler has considered the job, which takes longer on a busy machine.
      assert.match(fault, /a canary job runs: timed out while the job was queued \(PENDING(, \w+)?\)/);
      assert.match(fix, /"squeue" shows why a job waits/);
      assert.doesNotMatch(cluster.run('squeue', '-h', '-o', '%j'), /DOCTOR/);
      assert.deepEqual(readdirSync(work), []);
    });

    // They mostly wait for their canary jobs, or for a command that hangs.
    describe('with a fault of the host', { concurrency: 3 }, () => {
      test('reports a missing Slurm command', async () => {
        const bin = await createBinFolder([...tools, ...slurmTools.filter((tool) => tool !== 'sacct')]);
        const { fault, fix } = await requireOneFault(withPath(bin));
        assert.match(fault, /sacct is installed: .*not found/);
        assert.match(
          fix,
          new RegExp(`→ Install the Slurm client commands on ${access.hostLabel}, or add their folder to PATH`),
        );
      });

      testOnce('advises about the key of Slurm where the cluster uses auth/slurm instead of munge', async () => {
        // The words of Slurm 26.05: the version of this cluster may have no auth/slurm.
        const words = [
          'squeue: error: failed to connect to any sack sockets',
          'squeue: error: slurm_buffers_pack_msg: auth_g_create: REQUEST_JOB_INFO has authentication error',
          'slurm_load_jobs error: Protocol authentication error',
        ];
        const runWith = async (lines: string[]) => {
          const failure = lines.map((line) => `echo '${line}' >&2`).join('; ');
          const squeue = `[ "$1" != --version ] || exec ${findProgram('squeue')} "$@"; ${failure}; exit 1`;
          return await requireOneFault(withPath(await createBinFolder([...tools, ...slurmTools], { squeue })));
        };
        const { fault, fix } = await runWith(words);
        assert.match(fault, /the service account is authenticated: failed to connect to any sack sockets$/);
        assert.match(fix, /^ {6}→ Start sackd there .*slurm\.key/);
        assert.doesNotMatch(fix, /munge/);
        const unknown = await runWith(words.slice(2));
        assert.match(unknown.fix, /→ With AuthType=auth\/munge: Start munged .*With AuthType=auth\/slurm: Start sackd/);
      });

      test('reports a command that hangs, and goes on with the other checks', async () => {
        const squeue = `[ "$1" = --version ] || exec sleep 600; exec ${findProgram('squeue')} "$@"`;
        const bin = await createBinFolder([...tools, ...slurmTools, 'sleep'], { squeue });
        const { fault, stdout } = await requireOneFault({ ...withPath(bin), commandTimeoutSeconds: 12 });
        assert.match(
          fault,
          /the controller answers: .*squeue on .* did not answer|the controller answers: .* did not answer/,
        );
        assert.match(stdout, /✔ a workspace can be created/);
      });

      test('reports a workspace folder that cannot be written', async () => {
        const file = join(folder, 'file');
        await writeFile(file, '');
        const { fault, fix } = await requireOneFault({ workspaceFolder: join(file, 'work') });
        assert.match(
          fault,
          new RegExp(`a workspace can be created on ${access.hostLabel}: .*(Not a directory|ENOTDIR)`, 'i'),
        );
        assert.match(
          fix,
          new RegExp(`→ Create ${file}/work on ${access.hostLabel}, make the account that Bursar uses there its owner`),
        );
      });

      testOnce('reports a wrong clock', async () => {
        // A script fakes the clock: all hosts of this test share the real one.
        const bin = await createBinFolder([...tools, ...slurmTools], { date: '/bin/date -d "100 seconds ago" "$@"' });
        const { fault, fix } = await requireOneFault(withPath(bin));
        assert.match(fault, /the clock of .* is correct: it is \d+ s behind/);
        assert.match(fix, /→ Synchronise all machines with the same NTP server/);
      });

      testOnce('reports what a failed canary job printed', async () => {
        const bin = await createBinFolder([...tools.filter((tool) => tool !== 'touch'), ...slurmTools]);
        const { fault, fix, work } = await requireOneFault(withPath(bin));
        assert.match(
          fault,
          /a canary job runs: the job ended as failed: command not found .*; it printed: .*touch: command not/,
        );
        assert.match(fix, /→ Read what the job printed.*its nodes see the workspace folder/);
        assert.deepEqual(readdirSync(work), []);
      });
    });
  });
}
