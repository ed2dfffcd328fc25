import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { stringify } from 'yaml';
import { temporaryFolder } from '../../files/temporary.ts';
import { createCaller } from '../../support/api.ts';
import { hideBubblewrap } from '../../support/bubblewrap.ts';
import { bursarProcess } from '../../support/command-line.ts';
import { readOutput } from '../../support/jobs.ts';
import { waitForLog } from '../../support/logs.ts';
import { spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';

/** Reads the database of the server, in the parent folder of the workspaces. */
const readDatabase = 'head -c 15 ../../../bursar.db';
const database = { BURSAR_DATABASE_URL: 'sqlite:bursar.db' };

type System = { isolation: string };

/** The shipped configuration with other keys of its systems. */
function configWith(keys: object, engine: object = {}) {
  const config = shippedConfig();
  for (const system of Object.values(config.systems)) {
    Object.assign(system, keys);
    Object.assign(system.engine, engine);
  }
  return config;
}

describe('isolation of the shipped configuration', { concurrency: 2 }, () => {
  test('with bubblewrap a job cannot read the database, and nothing warns', async (t) => {
    const server = await spawnServer({ env: database });
    t.after(() => server.dispose());
    const me = createCaller(server.url, server.userToken);
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: readDatabase, runtime: 0.1 });
    assert.equal((await me.waitUntilFinished(job)).stage, 'FAILED');
    assert.equal(readOutput(server, job), '');
    const { body: systems } = await me.get<System[]>('/hpc/');
    assert.deepEqual(
      systems.map(({ isolation }) => isolation),
      ['bubblewrap', 'bubblewrap'],
    );
    assert.deepEqual((await me.get('/readyz')).body, { status: 'ok' });
    assert.doesNotMatch(server.stdout() + server.log(), /not isolated/);
  });

  test('without bubblewrap the server starts and runs jobs, and warns everywhere', async (t) => {
    const env = { ...database, PATH: hideBubblewrap(await temporaryFolder(t)) };
    const server = await spawnServer({ env });
    t.after(() => server.dispose());
    assert.match(
      server.stdout(),
      /WARNING: the jobs of these systems are not isolated\.\n {2}hpc_one: bubblewrap is not/,
    );
    await waitForLog(server, /"hpc":"hpc_one","reason":"bubblewrap is not installed.*jobs of hpc_one are not isolated/);
    const me = createCaller(server.url, server.userToken);
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: readDatabase, runtime: 0.1 });
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
    assert.equal(readOutput(server, job), 'SQLite format 3', 'which is why it warns');
    const { body: systems } = await me.get<System[]>('/hpc/');
    assert.deepEqual(
      systems.map(({ isolation }) => isolation),
      ['none', 'none'],
    );
    const { body: ready } = await me.get<{ warnings: string[] }>('/readyz');
    assert.deepEqual(
      ready.warnings.map((warning) => warning.slice(0, 33)),
      ['jobs of hpc_one are not isolated:', 'jobs of hpc_two are not isolated:'],
    );
    const { code, stdout } = await bursarProcess(['doctor', '--system', 'hpc_one'], {
      ...env,
      BURSAR_DATA: server.data,
    });
    assert.equal(code, 0, stdout);
    assert.match(
      stdout,
      /! jobs are isolated: they are not \(bubblewrap is not installed.*\); a job could reach the workspace of another job, the home of the account, the data of Bursar\n {6}→ Read docs\/security\.md/,
    );
  });
});

describe('refusals at start', () => {
  const cases: [string, object, RegExp][] = [
    [
      'isolation: bubblewrap without bubblewrap',
      configWith({ isolation: 'bubblewrap' }),
      /systems\.hpc_one\.isolation is bubblewrap, but bubblewrap is not installed.*apt-get install bubblewrap/,
    ],
    [
      'the shipped folders with isolation: none',
      configWith({ isolation: 'none' }),
      /hpc_one\.engine\.workspaceFolder: .*must not contain each other.*Set it to a folder elsewhere/,
    ],
    [
      'an account for jobs that does not exist',
      configWith({}, { runAs: 'no-such-account' }),
      /runAs.*(useradd --system --user-group no-such-account|Start Bursar as root)/,
    ],
  ];
  for (const [name, config, message] of cases) {
    test(name, async (t) => {
      const folder = await temporaryFolder(t);
      const file = join(folder, 'bursar.yaml');
      writeFileSync(file, stringify(config));
      const path = hideBubblewrap(await temporaryFolder(t));
      const settings = { BURSAR_CONFIG: file, BURSAR_DATA: join(folder, 'data'), BURSAR_PORT: '0', PATH: path };
      const { code, stdout, stderr } = await bursarProcess(['serve'], settings);
      assert.deepEqual([code, stdout], [3, '']);
      assert.match(stderr, message);
    });
  }
});

test('a configuration in a folder that jobs can read is a warning at start', {
  skip: process.getuid?.() !== 0 && 'only root can create such a folder',
}, async (t) => {
  const folder = mkdtempSync('/srv/bursar-test-');
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'bursar.yaml');
  writeFileSync(file, stringify(configWith({ readOnly: [folder] })));
  const server = await spawnServer({ env: { ...database, BURSAR_CONFIG: file } });
  t.after(() => server.dispose());
  const me = createCaller(server.url, server.userToken);
  const { body: job } = await me.submit('/jobs/hpc_one/', { command: `cat ${file}; ls ${folder}`, runtime: 0.1 });
  await me.waitUntilFinished(job);
  assert.equal(readOutput(server, job), 'bursar.yaml\n', 'the file is hidden');
  await waitForLog(server, /"file":"[^"]*bursar.yaml".*the configuration file is in a folder that jobs can read/);
});

test('an account for jobs cannot read the database, also without bubblewrap', {
  skip: process.getuid?.() !== 0 && 'only root can start jobs as another account',
}, async (t) => {
  const folder = await temporaryFolder(t);
  const workspaceFolder = join(folder, 'work');
  const config = configWith({ isolation: 'none' }, { runAs: 'nobody', workspaceFolder });
  chmodSync(folder, 0o711);
  const server = await spawnServer({ config, env: database });
  t.after(() => server.dispose());
  const me = createCaller(server.url, server.userToken);
  const command = `id -un; cat ${join(server.data, 'bursar.db')}`;
  const { body: job } = await me.submit('/jobs/hpc_one/', { command, runtime: 0.1 });
  assert.equal((await me.waitUntilFinished(job)).stage, 'FAILED');
  assert.equal(readFileSync(join(workspaceFolder, job.job_id, 'stdout'), 'utf8'), 'nobody\n');
});
