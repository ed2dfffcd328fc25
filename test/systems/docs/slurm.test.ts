import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { ownOptions, replacedCommands, stepOptions } from '../../../src/engines/slurm/steps.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { runFile } from '../../support/command-line.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../../support/slurm-cluster.ts';
import { startSshd, type TestSshd } from '../../support/sshd.ts';

const page = readFileSync(new URL('../../../docs/slurm.md', import.meta.url), 'utf8');

function example(language: string, containing: string): string {
  const blocks = [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))];
  const block = blocks.map(([, text = '']) => text).find((text) => text.includes(containing));
  assert.ok(block, `the page has no ${language} block with ${containing}`);
  return block;
}

test('docs/slurm.md lists the options and commands of isolated jobs', () => {
  for (const name of [...Object.keys(stepOptions), ...Object.keys(ownOptions), ...replacedCommands])
    assert.ok(page.includes(`\`${name}\``), `${name} is missing`);
});

/** Runs the page's configuration, doctor command and first job on a private cluster with the accounts of the page. */
describe('docs/slurm.md', () => {
  let cluster: SlurmCluster;
  let sshd: TestSshd;
  let server: ServerProcess;
  before(async () => {
    cluster = await startCluster({
      nodes: 1,
      database: true,
      extraConf: ['PartitionName=standard Nodes=ALL MaxTime=INFINITE State=UP'],
    });
    cluster.run('sacctmgr', '-i', 'add', 'qos', 'low');
    for (const account of ['gateway', 'chemistry']) {
      cluster.run('sacctmgr', '-i', 'add', 'account', account);
      cluster.run('sacctmgr', '-i', 'add', 'user', userInfo().username, `account=${account}`);
    }
    sshd = await startSshd();
    const { controlFolder: _, environment: __, ...ssh } = sshd.options;
    const config = parse(example('yaml', 'kind: slurm'));
    const testSettings = { ssh, environment: cluster.env, workspaceFolder: join(cluster.folder, 'work') };
    Object.assign(config.systems.hpc_one.engine, testSettings);
    server = await spawnServer({ config });
  });
  after(async () => {
    await server.dispose();
    await sshd.close();
    await cluster.stop();
  });

  test('shows a doctor command that passes on the documented cluster', async () => {
    const [, args = ''] = /^npm run -s bursar -- (.*)$/m.exec(example('sh', 'doctor')) ?? [];
    const { stdout } = await server.bursar(...args.split(' '));
    assert.match(stdout, /✔ the service account may use account chemistry of proj_hpc_one_02/);
    assert.match(stdout, /✔ a canary job runs/);
    assert.match(stdout, /✔ jobs are isolated: a job and a task of srun could not reach/);
  });

  test('shows a first job that runs unchanged', async () => {
    const script = example('sh', 'curl').replaceAll('http://127.0.0.1:8080', server.url);
    const { stdout } = await runFile('bash', ['-euc', script], { env: { ...process.env, TOKEN: server.userToken } });
    const job = await createCaller(server.url, server.userToken).waitUntilFinished(JSON.parse(stdout) as Job);
    assert.deepEqual([job.title, job.stage], ['First', 'SUCCESSFUL']);
  });
});
