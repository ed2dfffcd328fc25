import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

/** In the form of scripts/build.mjs. */
function builtProgram(output: string): string {
  const text = `exports.runCommandLine = () => console.log('${output}');`;
  return `//${createHash('sha256').update(text).digest('hex')}\n(function (exports) {${text}})`;
}

const root = fileURLToPath(new URL('../../', import.meta.url));

describe('the built program', () => {
  let folder: string;
  const env = () => ({ ...process.env, NODE_COMPILE_CACHE: join(folder, 'cache') });
  const run = (command = '--version') =>
    execFileSync(process.execPath, [join(folder, 'bin/bursar.mjs'), command], { encoding: 'utf8', env: env() });
  const findBuildFolder = async () =>
    ((await import(join(folder, 'bin/build-folder.mjs'))) as typeof import('../../bin/build-folder.mjs')).buildFolder();

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-built-'));
    for (const name of ['bin', 'src', 'clients', 'web', 'scripts', 'config', 'package.json', 'package-lock.json'])
      cpSync(join(root, name), join(folder, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  });
  after(() => rmSync(folder, { recursive: true }));

  test('runs only while the sources are unchanged since the build', async () => {
    assert.match(run(), /^\d+\.\d+\.\d+\n$/);
    const built = await findBuildFolder();
    mkdirSync(built, { recursive: true });
    writeFileSync(join(built, 'program.cjs'), builtProgram('from the build'));
    assert.equal(run(), 'from the build\n');
    utimesSync(join(folder, 'src/main.ts'), 1, 1);
    assert.match(run(), /^\d+\.\d+\.\d+\n$/);
  });

  test('loads the functions that an earlier run has compiled, if they are of this program and whole', async () => {
    const program = join(await findBuildFolder(), 'program.cjs');
    mkdirSync(dirname(program), { recursive: true });
    const compiled = () => join(folder, 'cache/compiled', readdirSync(join(folder, 'cache/compiled'))[0] ?? '');
    writeFileSync(program, builtProgram('first'));
    rmSync(join(folder, 'cache'), { recursive: true, force: true });
    assert.equal(run('jobs'), 'first\n');
    const saved = statSync(compiled());
    assert.equal(saved.mode & 0o777, 0o600);
    assert.equal(run('jobs'), 'first\n');
    assert.equal(statSync(compiled()).ino, saved.ino, 'accepted, therefore not saved again');

    const whole = readFileSync(compiled());
    const flipped = Buffer.from(whole);
    flipped.writeUInt8(whole.readUInt8(whole.length - 9) ^ 1, whole.length - 9);
    for (const damaged of [flipped, whole.subarray(0, -100), whole.subarray(0, 10), Buffer.alloc(0)]) {
      writeFileSync(compiled(), damaged);
      const { ino } = statSync(compiled());
      assert.equal(run('jobs'), 'first\n');
      assert.notEqual(statSync(compiled()).ino, ino, 'not used, therefore saved again');
    }

    // Of the same length, by which alone V8 tells sources apart.
    writeFileSync(program, builtProgram('other'));
    assert.equal(run('jobs'), 'other\n');
    assert.equal(run('../jobs'), 'other\n');
    assert.deepEqual(
      readdirSync(join(folder, 'cache/compiled')).map((name) => name.split('-').at(-1)),
      ['jobs', 'other'],
    );
  });

  test('runs without a folder for compiled functions', async () => {
    const built = await findBuildFolder();
    mkdirSync(built, { recursive: true });
    writeFileSync(join(built, 'program.cjs'), builtProgram('without'));
    rmSync(join(folder, 'cache'), { recursive: true, force: true });
    writeFileSync(join(folder, 'cache'), 'not a folder');
    assert.equal(run('jobs'), 'without\n');
    rmSync(join(folder, 'cache'));
  });

  test('gets a new folder when a source file, a dependency or the build script changes', async () => {
    const original = await findBuildFolder();
    writeFileSync(join(folder, 'src/domain/new.ts'), '');
    const withNewFile = await findBuildFolder();
    writeFileSync(join(folder, 'package-lock.json'), '{}');
    const withNewDependencies = await findBuildFolder();
    writeFileSync(join(folder, 'scripts/build.mjs'), '');
    const withNewScript = await findBuildFolder();
    assert.equal(new Set([original, withNewFile, withNewDependencies, withNewScript]).size, 4);
  });
});
