import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { bursarProcess } from '../../support/command-line.ts';
import { isLongRun } from '../../support/long-run.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { startSshd } from '../../support/sshd.ts';
import { type DoctorCluster, doctorSuite, startDoctorCluster } from './doctor-suite.ts';

async function startSshAccess() {
  const sshd = await startSshd();
  const { controlFolder: _, environment: __, ...ssh } = sshd.options;
  return { sshd, engine: { ssh }, hostLabel: ssh.host, close: sshd.close };
}

// Both suites share one cluster: slurmdbd takes 4 s to start.
describe('bursar doctor on Slurm', () => {
  let cluster: DoctorCluster;
  before(async () => {
    cluster = await startDoctorCluster();
  });
  after(() => cluster.stop());

  const local = async () => ({ engine: {}, hostLabel: 'this host', close: async () => undefined });
  doctorSuite('on this host', () => cluster, local);
  doctorSuite('over ssh', () => cluster, startSshAccess, { onlyHostFaults: !isLongRun });
});

test('bursar doctor reports why a host cannot be reached, and skips the other checks', async (t) => {
  const { sshd, engine, close } = await startSshAccess();
  t.after(close);
  const noCluster = { env: { SLURM_CONF: '/nowhere' } };
  const runDoctor = async (ssh: object) => {
    const config = join(sshd.folder, 'config.yaml');
    await writeFile(config, stringify(slurmConfig(noCluster, { ssh, workspaceFolder: '/nowhere' })));
    await mkdir(join(sshd.folder, 'data'), { recursive: true });
    return await bursarProcess(['doctor'], { BURSAR_CONFIG: config, BURSAR_DATA: join(sshd.folder, 'data') });
  };
  const unknownHostKey = await runDoctor({ ...engine.ssh, knownHostsFile: join(sshd.folder, 'nobody') });
  assert.equal(unknownHostKey.code, 1);
  assert.match(
    unknownHostKey.stdout,
    /✖ 127\.0\.0\.1 can be reached: .*its host key is not known.*\n {6}→ Run the same ssh command by hand/,
  );
  await sshd.stop();
  const down = await runDoctor(engine.ssh);
  assert.equal(down.code, 1);
  assert.match(
    down.stdout,
    /✖ 127\.0\.0\.1 can be reached: .*cannot be reached at port \d+.*\n {6}→ Run the same ssh command by hand/,
  );
  assert.equal(down.stdout.split('\n').filter((line) => /[✔✖]/.test(line)).length, 2, down.stdout);
});
