import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { oldestNode } from '../../../support/oldest-node.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';

interface ClientPackage {
  name: string;
  install: string;
  url: string;
  size: number;
  sha256: string;
}

describe('the clients that a built server offers', () => {
  let server: ServerProcess;
  let packages: ClientPackage[];
  const folder = mkdtempSync(join(tmpdir(), 'bursar-clients-'));
  const find = (suffix: string) => {
    const found = packages.find(({ name }) => name.endsWith(suffix));
    assert.ok(found, `no package ends with ${suffix}`);
    return found;
  };

  before(async () => {
    server = await spawnServer();
    const response = await fetch(`${server.url}/clients/`);
    assert.equal(response.status, 200);
    packages = (await response.json()) as ClientPackage[];
  });
  after(async () => {
    await server.dispose();
    rmSync(folder, { recursive: true });
  });

  test('are the command line and two libraries, whose sizes and hashes are right', async () => {
    assert.deepEqual(
      packages.map(({ name }) => name.replace(/\d+\.\d+\.\d+/, '<version>')),
      ['bursar-<version>-py3-none-any.whl', 'bursar-client-<version>.tgz', 'bursar.mjs'],
    );
    for (const { url, size, sha256 } of packages) {
      const content = Buffer.from(await (await fetch(url)).arrayBuffer());
      assert.deepEqual([content.length, hash('sha256', content)], [size, sha256]);
      const etag = { 'if-none-match': `"${sha256}"` };
      assert.equal((await fetch(url, { headers: etag })).status, 304);
    }
  });

  test('are listed for browsers as a page, with hashes in the links', async () => {
    const response = await fetch(`${server.url}/clients/`, { headers: { accept: 'text/html' } });
    const page = await response.text();
    assert.match(response.headers.get('content-type') ?? '', /^text\/html/);
    for (const { install, url, sha256 } of packages) {
      assert.ok(page.includes(`href="${url}#sha256=${sha256}"`), page);
      assert.ok(page.includes(install), page);
    }
  });

  test('have a command line that runs as a single file', async () => {
    const file = join(folder, 'bursar.mjs');
    writeFileSync(file, await (await fetch(find('.mjs').url)).text());
    const env = { PATH: process.env.PATH, HOME: folder, BURSAR_URL: server.url, BURSAR_TOKEN: server.userToken };
    const output = execFileSync(oldestNode, [file, 'whoami', '--json'], { encoding: 'utf8', env });
    assert.equal(JSON.parse(output).user, '301330');
  });

  test('have a library that npm installs from its address, and that reads the quotas', () => {
    const project = join(folder, 'project');
    const run = (command: string, args: string[]) =>
      execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    run('npm', ['install', '--prefix', project, '--no-audit', '--no-fund', '--loglevel=error', find('.tgz').url]);
    const script = `
import { Bursar } from '@bursar/client';
const bursar = new Bursar({ url: ${JSON.stringify(server.url)}, token: ${JSON.stringify(server.userToken)} });
console.log((await bursar.quotas()).length > 0);`;
    writeFileSync(join(project, 'quotas.mjs'), script);
    assert.equal(run(oldestNode, [join(project, 'quotas.mjs')]), 'true\n');
  });

  test('do not include other files', async () => {
    for (const name of ['missing.mjs', '..%2fprogram.cjs', '%00']) {
      const response = await fetch(`${server.url}/clients/${name}`);
      assert.ok([400, 404].includes(response.status), `${name}: ${response.status}`);
    }
  });
});
