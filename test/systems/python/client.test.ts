import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { buildWheel } from '../../../scripts/build-wheel.mjs';
import { runBursar, runFile } from '../../support/command-line.ts';
import { findExample } from '../../support/readme.ts';
import { startServer, type TestServer } from '../../support/server.ts';

/** Debian's, with Debian's requests: PATH may have another one first. */
const python = '/usr/bin/python3';
const packageFolder = fileURLToPath(new URL('../../../clients/python/', import.meta.url));
const readFile = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

describe('Python client', { concurrency: true }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-python-'));
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(async () => {
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Each user has jobs and events of their own, so that the tests can run at the same time. */
  const environment = async (user: string) => ({
    ...process.env,
    BURSAR_URL: server.url,
    BURSAR_TOKEN: await server.token(user),
    PYTHONPATH: packageFolder,
    PYTHONDONTWRITEBYTECODE: '1',
  });

  for (const [index, name] of ['jobs', 'errors', 'connections', 'sweep', 'executor', 'folder', 'profile'].entries()) {
    test(`tests/test_${name}.py`, async () => {
      const env = await environment(String(400_000 + index));
      const args = ['-W', 'ignore::ResourceWarning', '-m', 'unittest', `tests.test_${name}`];
      const { stderr } = await runFile(python, args, { cwd: packageFolder, env, timeout: 600_000 });
      assert.match(stderr, /\nOK( \(skipped=\d+\))?\n$/);
    });
  }

  test('the examples of its README run', async () => {
    const env = await environment('400010');
    const page = readFile('clients/python/README.md');
    const firstJob = await runFile(python, ['-c', findExample('python', 'First job', server.url, page)], {
      cwd: folder,
      env,
    });
    assert.match(firstJob.stdout, /^SUCCESSFUL hello, world\n/);
    assert.equal(readFileSync(join(folder, 'results/result.txt'), 'utf8'), 'hello, world\n');
    const script = join(folder, 'simulate.py');
    writeFileSync(script, findExample('python', 'def simulate', server.url, page));
    const executor = await runFile(python, [script], { cwd: folder, env });
    assert.equal(executor.stdout, '[0, 1, 4]\n');
  });

  test('it uses the profile that `bursar login` has stored', async () => {
    const { BURSAR_URL, BURSAR_TOKEN, ...inherited } = await environment('400020');
    const env = { ...inherited, XDG_CONFIG_HOME: join(folder, 'config') };
    await runBursar(['login', BURSAR_URL, '--token', BURSAR_TOKEN], env);
    const { stdout } = await runFile(python, ['-c', 'import bursar; print(bursar.Bursar().me()["user"])'], { env });
    assert.equal(stdout, '400020\n');
  });

  test('its types are complete and consistent', async () => {
    const { stdout } = await runFile('mypy', ['--cache-dir', join(folder, 'mypy')], { cwd: packageFolder });
    assert.match(stdout, /^Success/);
  });

  test('pip installs the wheel from a server, and it has the version of Bursar', async () => {
    const { version } = JSON.parse(readFile('package.json')) as { version: string };
    const fileName = buildWheel(join(folder, 'wheel'));
    assert.equal(fileName, `bursar-${version}-py3-none-any.whl`);
    const wheel = readFileSync(join(folder, 'wheel', fileName));
    buildWheel(join(folder, 'again'));
    assert.deepEqual(readFileSync(join(folder, 'again', fileName)), wheel);
    assert.match(readFile('clients/python/bursar/_version.py'), new RegExp(`^version = "${version}"$`, 'm'));

    const files = createServer((_, response) => void response.end(wheel)).listen(0, '127.0.0.1');
    try {
      const venv = join(folder, 'venv');
      await runFile(python, ['-m', 'venv', '--system-site-packages', venv]);
      const url = `http://127.0.0.1:${(files.address() as AddressInfo).port}/clients/${fileName}`;
      const inVenv = (...args: string[]) => runFile(join(venv, 'bin/python'), args, { cwd: folder });
      await inVenv('-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-index', url);
      const { stdout } = await inVenv('-c', 'import bursar; print(bursar.__version__, bursar.__file__)');
      assert.equal(stdout.split(' ')[0], version);
      assert.ok(stdout.includes(venv));
    } finally {
      files.close();
    }
  });
});
