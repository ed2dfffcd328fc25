import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { slurmConfig } from '../slurm/config.ts';
import { bursar } from '../support/command-line.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';

/** A way of reaching the cluster: further settings of the engine, and the name that the doctor has for the place. */
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

/** What Bursar and a job need of a host. */
const tools = 'bash cat chmod date env id ls mkdir mv printf realpath rm rmdir sh tail tar touch true'.split(' ');
const slurmTools = ['sbatch', 'squeue', 'scontrol', 'scancel', 'sinfo', 'sacct', 'sacctmgr'];

/** Every fault is made for real, on a cluster of its own with accounts, and found with its fix; the same for each reach. */
export function doctorSuite(name: string, reach: () => Promise<ClusterAccess>): void {
  describe(`bursar doctor in front of Slurm, ${name}`, () => {
    let cluster: SlurmCluster;
    let way: ClusterAccess;
    let folder: string;
    const work = () => join(cluster.folder, 'work');
    before(async () => {
      const extraConf = ['AccountingStorageEnforce=associations'];
      cluster = await startCluster({ nodes: 1, database: true, extraConf });
      for (const account of ['gateway', 'others']) cluster.run('sacctmgr', '-i', 'add', 'account', account);
      cluster.run('sacctmgr', '-i', 'add', 'user', userInfo().username, 'account=gateway');
      way = await reach();
      folder = await mkdtemp(join(tmpdir(), 'bursar-doctor-test-'));
    });
    after(async () => {
      await way.close();
      await cluster.stop();
      await rm(folder, { recursive: true, force: true });
    });

    async function examine(engine: Record<string, unknown> = {}, ...args: string[]) {
      const site = { account: 'gateway', partition: 'main' };
      const settings = { accounting: 'sacct', workspaceFolder: work(), site, ...way.engine, ...engine };
      const config = join(folder, 'config.yaml');
      await writeFile(config, stringify(slurmConfig(cluster, settings)));
      return await bursar(['doctor', ...args], { BURSAR_CONFIG: config, BURSAR_DATA: join(folder, 'data') });
    }

    /** The one fault that there is, as the report shows it, and its fix right below. */
    async function faultOf(engine: Record<string, unknown> = {}, ...args: string[]) {
      const { code, stdout, stderr } = await examine(engine, ...args);
      const lines = stdout.split('\n');
      const faults = lines.filter((line) => line.startsWith('  ✖ '));
      assert.deepEqual([code, stderr, faults.length], [1, '', 1], stdout);
      return { fault: faults[0] ?? '', fix: lines[lines.indexOf(faults[0] ?? '') + 1] ?? '', stdout };
    }

    /** A folder of programs for the PATH of the account. */
    async function toolbox(programs: readonly string[], own: Record<string, string> = {}): Promise<string> {
      const box = await mkdtemp(join(folder, 'bin-'));
      const found = (program: string) =>
        ['/usr/bin', '/bin'].map((place) => join(place, program)).find(existsSync) ?? '';
      for (const program of programs) await symlink(found(program), join(box, program));
      for (const [program, text] of Object.entries(own)) {
        await rm(join(box, program), { force: true });
        await writeFile(join(box, program), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
      }
      return box;
    }
    const withPath = (PATH: string) => ({ environment: { ...cluster.env, PATH } });

    test('all is well: every check is shown, a canary job ran, nothing is left, and the exit code is 0', async () => {
      const { code, stdout, stderr } = await examine({}, '--json');
      assert.deepEqual([code, stderr], [0, ''], stdout);
      const { bursar: own, hpc_one: found } = JSON.parse(stdout) as Record<string, Finding[]>;
      assert.ok(own?.every(({ ok }) => ok));
      assert.deepEqual(
        found?.map(({ check, ok, fix }) => [check, ok, fix]),
        [
          `${way.hostLabel} can be reached`,
          ...['sbatch', 'squeue', 'scontrol', 'scancel', 'sacct'].map((command) => `${command} is there`),
          `the clock of ${way.hostLabel} agrees`,
          'munge vouches for the service account',
          'the controller answers',
          'the clock of the controller agrees',
          'partition main of proj_hpc_one_01 exists',
          'account gateway of proj_hpc_one_01 is open to the service account',
          'Slurm takes jobs of proj_hpc_one_01',
          `a workspace can be made on ${way.hostLabel}`,
          'a canary job runs',
        ].map((check) => [check, true, null]),
      );
      assert.match(found?.find(({ check }) => check === 'squeue is there')?.detail ?? '', /^slurm\S* \d+\.\d+/);
      assert.deepEqual(readdirSync(work()), []);
      assert.match(cluster.run('squeue', '-h', '-t', 'all', '-o', '%j %T'), /^DOCTOR-[0-9A-F]{32} COMPLETED\n$/);
    });

    test('without a canary no job is sent', async () => {
      const before = cluster.run('squeue', '-h', '-t', 'all');
      const { code, stdout } = await examine({}, '--no-canary');
      assert.equal(code, 0, stdout);
      assert.match(stdout, /✔ a workspace can be made/);
      assert.doesNotMatch(stdout, /canary/);
      assert.equal(cluster.run('squeue', '-h', '-t', 'all'), before);
    });

    test('a command of Slurm is missing', async () => {
      const box = await toolbox([...tools, ...slurmTools.filter((tool) => tool !== 'sacct')]);
      const { fault, fix } = await faultOf(withPath(box));
      assert.match(fault, /sacct is there: .*not found/);
      assert.match(fix, new RegExp(`→ Install the Slurm clients on ${way.hostLabel}, or put their folder on the PATH`));
    });

    test('munge is down', async () => {
      await cluster.stopMunge();
      const { fault, fix } = await faultOf();
      await cluster.startMunge();
      assert.match(fault, /munge vouches for the service account: Munge encode failed: .*Did you start munged/);
      assert.match(fix, /→ Start munged there/);
    });

    test('the controller is down', async () => {
      await cluster.stopController();
      const { fault, fix } = await faultOf();
      await cluster.startController();
      assert.match(fault, /the controller answers: slurmctld on \S+ is down/);
      assert.match(fix, /→ See that slurmctld runs, and that slurm\.conf names it/);
    });

    test('a partition, an account or a feature that there is not', async () => {
      const site = { account: 'gateway', partition: 'main' };
      const partition = await faultOf({ site: { ...site, partition: 'nowhere' } });
      assert.match(partition.fault, /partition nowhere of proj_hpc_one_01 exists: there is no such partition/);
      assert.match(partition.fix, /→ Correct site\.partition.*"sinfo" lists those there are/);
      const account = await faultOf({ site: { ...site, account: 'nobodys' } });
      assert.match(account.fault, /account nobodys .*: there is no such account/);
      const closed = await faultOf({ site: { ...site, account: 'others' } });
      assert.match(closed.fault, /account others .*: \w+ does not belong to it/);
      assert.match(closed.fix, /→ Correct site\.account.*sacctmgr add user … account=others/);
      const constraint = await faultOf({ site: { ...site, constraint: 'nothing' } });
      assert.match(constraint.fault, /Slurm takes jobs of proj_hpc_one_01: .*Invalid feature specification/);
      assert.match(constraint.fix, /→ Correct the site of the system or of the project/);
    });

    test('workspaces cannot be written where the commands run', async () => {
      const file = join(folder, 'file');
      await writeFile(file, '');
      const { fault, fix } = await faultOf({ workspaceFolder: join(file, 'work') });
      assert.match(fault, new RegExp(`a workspace can be made on ${way.hostLabel}: .*(Not a directory|ENOTDIR)`, 'i'));
      assert.match(fix, new RegExp(`→ Create ${file}/work on ${way.hostLabel}, give it to the account`));
    });

    test('a clock that is wrong', async () => {
      // The one thing that cannot be made for real: there is one clock here.
      const box = await toolbox([...tools, ...slurmTools], { date: '/bin/date -d "100 seconds ago" "$@"' });
      const { fault, fix } = await faultOf(withPath(box));
      assert.match(fault, /the clock of .* agrees: it is \d+ s behind/);
      assert.match(fix, /→ Keep all machines on the time of one NTP server/);
    });

    test('a canary that fails says what it printed', async () => {
      const box = await toolbox([...tools.filter((tool) => tool !== 'touch'), ...slurmTools]);
      const { fault, fix } = await faultOf(withPath(box));
      assert.match(
        fault,
        /a canary job runs: it ended as failed: command not found .*; it printed: .*touch: command not/,
      );
      assert.match(fix, /→ See what the job printed.*do its nodes see the workspace folder/);
      assert.deepEqual(readdirSync(work()), []);
    });

    test('nodes that do not see the workspaces', async () => {
      // What a node does before a job: here it takes the folder away, as if the node had never had it.
      const prolog = join(cluster.folder, 'prolog');
      await writeFile(prolog, `#!/bin/bash\nmv ${work()} ${work()}.elsewhere\n`, { mode: 0o755 });
      const conf = await readFile(cluster.env.SLURM_CONF, 'utf8');
      await writeFile(cluster.env.SLURM_CONF, `${conf}Prolog=${prolog}\n`);
      cluster.run('scontrol', 'reconfigure');
      const { fault, fix } = await faultOf();
      await writeFile(cluster.env.SLURM_CONF, conf);
      cluster.run('scontrol', 'reconfigure');
      await rm(`${work()}.elsewhere`, { recursive: true });
      await mkdir(work(), { recursive: true });
      assert.match(fault, /a canary job runs: it ended as (node_failed|failed)/);
      assert.match(fix, /do its nodes see the workspace folder under the same path/);
    });

    test('a canary that never gets its turn is given up, and taken back', async () => {
      const whole = ['--account=gateway', '--exclusive', '--output=/dev/null', '--parsable', '--wrap=sleep 600'];
      const blocker = cluster.run('sbatch', ...whole).trim();
      await until(
        'the node is taken',
        () => cluster.run('squeue', '-h', '-t', 'R', '-o', '%i').includes(blocker) || undefined,
      );
      const { fault, fix } = await faultOf({}, '--patience', '2');
      cluster.run('scancel', blocker);
      assert.match(fault, /a canary job runs: it was given up while queued \(PENDING, \w+\)/);
      assert.match(fix, /"squeue" tells why a job waits/);
      assert.doesNotMatch(cluster.run('squeue', '-h', '-o', '%j'), /DOCTOR/);
      assert.deepEqual(readdirSync(work()), []);
    });
  });
}
