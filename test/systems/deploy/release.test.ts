import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { list } from 'tar';
import packageJson from '../../../package.json' with { type: 'json' };
import type { Bill } from '../../../scripts/release-sbom.ts';
import webPackage from '../../../web/package.json' with { type: 'json' };
import { runFile } from '../../support/command-line.ts';
import { until } from '../../support/until.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { version } = packageJson;

describe('a release', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-release-test-'));
  const tarball = join(folder, `bursar-${version}.tgz`);
  const prefix = join(folder, 'prefix');
  // The launcher finds this Node where the package brings none, and no npm of the project.
  const env = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, HOME: folder, BURSAR_PORT: '0' };

  before(async () => {
    await runFile(process.execPath, ['scripts/release.ts', folder], { cwd: root });
    // Without the Node that npm would download. Everything else is in the tarball: it installs without a network.
    const options = ['--prefix', prefix, '--offline', '--omit=optional', '--loglevel=error'];
    await runFile('npm', ['install', '-g', ...options, tarball], { cwd: folder });
  });
  after(() => rmSync(folder, { recursive: true }));

  test('contains what runs, and neither sources nor tests, maps, types or files of a developer', async () => {
    const files: string[] = [];
    await list({ file: tarball, onReadEntry: ({ path }) => void files.push(path.replace('package/', '')) });
    const top = new Set(files.map((file) => file.split('/')[0]));
    assert.deepEqual(
      [...top].sort(),
      [
        ...['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'THIRD-PARTY-LICENSES.txt', 'package.json'],
        ...['bin', 'config', 'deploy', 'dist', 'docs', 'node_modules'],
      ].sort(),
    );
    assert.deepEqual(
      files.filter((file) => /\.(map|tsx?|mts|cts|cpp|[ch]|db|pem|key|env|log)$|(^|\/)(tests?|data)\//.test(file)),
      [],
    );
    for (const needed of [
      'bin/bursar',
      'config/bursar.yaml',
      'dist/release/program.cjs',
      'dist/release/supervisor.cjs',
      'dist/release/web/index.html',
      `dist/release/clients/bursar-${version}-py3-none-any.whl`,
      'docs/security.md',
      'deploy/systemd/bursar.service',
    ])
      assert.ok(files.includes(needed), needed);
    assert.match(
      readFileSync(join(prefix, 'lib/node_modules/bursar/THIRD-PARTY-LICENSES.txt'), 'utf8'),
      /^fastify \d/m,
    );
  });

  test('runs a job without the sources, and serves the web page, the clients and the documentation', async (t) => {
    const bursar = join(prefix, 'bin/bursar');
    const data = join(folder, 'data');
    const server = spawn(bursar, ['serve'], { env: { ...env, BURSAR_DATA: data }, cwd: folder });
    t.after(async () => {
      server.kill();
      await once(server, 'exit');
    });
    let output = '';
    server.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    const token = await until('the server is ready', () => /user +\d+: (\S+)[\s\S]*curl/.exec(output)?.[1]);
    const [, url = ''] = /serves (http:\S+)/.exec(output) ?? [];
    // The launcher replaces itself by Node, so that signals reach the server.
    assert.match(
      readFileSync(`/proc/${server.pid}/cmdline`, 'utf8'),
      /node\0--max-semi-space-size=4\0[^\0]*bursar\.mjs\0serve/,
    );
    assert.match(output, /^ {2}bursar submit /m);

    for (const path of [
      '/app/',
      '/docs/',
      '/openapi.json',
      '/clients/bursar.mjs',
      `/clients/bursar-client-${version}.tgz`,
    ])
      assert.equal((await fetch(url + path)).status, 200, path);
    await runFile(bursar, ['login', url, '--token', token], { env });
    const submit = [
      'submit',
      '--system',
      'hpc_one',
      '--command',
      'echo from the release',
      '--runtime',
      '0.1',
      '--watch',
    ];
    const { stdout } = await runFile(bursar, [...submit, '--title', 'Release'], { env });
    assert.match(stdout, /from the release/);
    const doctor = await runFile(bursar, ['doctor', '--no-canary'], { env: { ...env, BURSAR_DATA: data } });
    assert.match(doctor.stdout, /✔ the database can be opened/);
  });

  test('has a bill of materials with every package that runs, and with no address or path of the machine that made it', () => {
    const text = readFileSync(join(folder, `bursar-${version}.cdx.json`), 'utf8');
    const { metadata, components } = JSON.parse(text) as Bill;
    assert.deepEqual([metadata.component.name, metadata.component.version], ['bursar', version]);
    const names = new Set(components.map(({ name }) => name));
    const direct = { ...packageJson.dependencies, ...packageJson.optionalDependencies, ...webPackage.dependencies };
    const transitive = ['pg-types', 'fast-uri', 'scheduler'];
    for (const name of [...Object.keys(direct), ...transitive].filter((item) => !item.startsWith('@bursar/')))
      assert.ok(names.has(name), `${name} is missing`);
    for (const name of ['typescript', 'esbuild', '@biomejs/biome']) assert.ok(!names.has(name), name);
    // The old Node is for tests.
    const nodes = components.filter(({ name }) => /^node-(linux|darwin)-/.test(name));
    assert.ok(nodes.length > 0 && nodes.every(({ version }) => version.startsWith('24.')), JSON.stringify(nodes));
    for (const component of components) {
      assert.ok(component.version && component.licenses.length > 0, component.name);
    }
    assert.doesNotMatch(text, /registry|"file:|\/(home|root|tmp)\//);
    assert.ok(!text.includes(root));
  });

  test('has hashes that sha256sum accepts', async () => {
    await runFile('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: folder });
    assert.ok(existsSync(tarball));
  });
});
