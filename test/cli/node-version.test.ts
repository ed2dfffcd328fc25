import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { describeOldNode } from '../../bin/node-version.mjs';
import { runFile } from '../support/command-line.ts';
import { readme } from '../support/readme.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

const onNode = (node: string, platform: string, arch: string) =>
  describeOldNode({ versions: { node }, platform, arch });

describe('the version of Node', () => {
  test('22.18 and newer is accepted on every platform', () => {
    for (const version of ['22.18.0', '24.0.0', '26.1.0'])
      for (const arch of ['x64', 'arm64']) assert.equal(onNode(version, 'darwin', arch), undefined);
  });

  test('that is too old is replaced by npm where it installs one', () => {
    for (const [platform, arch] of [
      ['linux', 'x64'],
      ['linux', 'arm64'],
      ['darwin', 'x64'],
    ] as const) {
      assert.match(onNode('22.17.1', platform, arch) ?? '', /this is Node 22\.17\.1\. Use "npm start"/);
    }
  });

  test('that is too old must be replaced by the user elsewhere: on Apple silicon npm installs none', () => {
    for (const [platform, arch] of [
      ['darwin', 'arm64'],
      ['linux', 'ppc64'],
    ] as const) {
      const message = onNode('20.20.2', platform, arch) ?? '';
      assert.match(message, new RegExp(`installs no Node for ${platform} ${arch}: install Node 24 yourself`));
      assert.doesNotMatch(message, /npm start/);
    }
    assert.match(readme, /Apple silicon[^.]*: install Node\s+24 yourself/);
  });

  for (const script of ['scripts/prepare.mjs', 'bin/bursar.mjs']) {
    test(`is checked by ${script}, which then does nothing else`, async () => {
      const host =
        "{ versions: { value: { ...process.versions, node: '20.0.0' } }, platform: { value: 'darwin' }, arch: { value: 'arm64' } }";
      const preload = `data:text/javascript,Object.defineProperties(process, ${host})`;
      await assert.rejects(
        runFile(process.execPath, ['--import', preload, script], { cwd: root }),
        ({ code, stdout, stderr }) => {
          assert.deepEqual([code, stdout], [1, '']);
          assert.match(
            stderr,
            /^Bursar needs Node 22\.18 or newer; this is Node 20\.0\.0\. [^\n]*install Node 24 yourself[^\n]*\n$/,
          );
          return true;
        },
      );
    });
  }
});
