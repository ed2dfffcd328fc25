import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { slurmConfig } from '../slurm/config.ts';
import { bursar } from '../support/command-line.ts';
import { startSshd } from '../support/sshd.ts';
import { doctorSuite } from './doctor-suite.ts';

async function reachBySsh() {
  const sshd = await startSshd();
  const { controlFolder: _, environment: __, ...ssh } = sshd.options;
  return { sshd, engine: { ssh }, hostLabel: ssh.host, close: sshd.close };
}

doctorSuite('over ssh', reachBySsh);

test('bursar doctor says why a host cannot be reached, and looks no further', async (t) => {
  const { sshd, engine, close } = await reachBySsh();
  t.after(close);
  const nowhere = { env: { SLURM_CONF: '/nowhere' } };
  const examine = async (ssh: object) => {
    const config = join(sshd.folder, 'config.yaml');
    await writeFile(config, stringify(slurmConfig(nowhere, { ssh, workspaceFolder: '/nowhere' })));
    await mkdir(join(sshd.folder, 'data'), { recursive: true });
    return await bursar(['doctor'], { BURSAR_CONFIG: config, BURSAR_DATA: join(sshd.folder, 'data') });
  };
  const unknown = await examine({ ...engine.ssh, knownHostsFile: join(sshd.folder, 'nobody') });
  assert.equal(unknown.code, 1);
  assert.match(
    unknown.stdout,
    /✖ 127\.0\.0\.1 can be reached: .*its host key is not known.*\n {6}→ Try the same with ssh/,
  );
  await sshd.stop();
  const down = await examine(engine.ssh);
  assert.equal(down.code, 1);
  assert.match(
    down.stdout,
    /✖ 127\.0\.0\.1 can be reached: .*cannot be reached at port \d+.*\n {6}→ Try the same with ssh/,
  );
  assert.equal(down.stdout.split('\n').filter((line) => /[✔✖]/.test(line)).length, 2, down.stdout);
});
