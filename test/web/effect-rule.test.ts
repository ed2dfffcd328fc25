import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';

const refused = [
  'useEffect(() => element.scrollIntoView(), []);',
  'useEffect(() => element?.scrollIntoView());',
  'useLayoutEffect(() => void start(), []);',
  'useInsertionEffect(() => start(), []);',
  'useEffect(start, []);',
  'useEffect(() => { return start(); }, []);',
  'useEffect(() => { if (isReady) return; return start(); }, []);',
  'useEffect(() => { if (isReady) return () => stop(); return start(); }, []);',
  'useEffect(function () { return start(); }, []);',
];
const accepted = [
  'useEffect(() => { element.scrollIntoView(); }, []);',
  'useEffect(() => { start(); return () => stop(); }, []);',
  'useEffect(() => { if (isReady) return; start(); return () => { return stop(); }; }, []);',
  'useEffect(() => { const next = () => { return 1; }; start(next); return () => stop(); }, []);',
];

test('the linter refuses an effect that returns anything but a function', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-effects-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const config = { plugins: [resolve('web/effect-results.grit')], linter: { rules: { preset: 'none' } } };
  writeFileSync(join(folder, 'biome.json'), JSON.stringify(config));
  const lint = (name: string, examples: readonly string[]) => {
    for (const [index, code] of examples.entries()) writeFileSync(join(folder, `${name}${index}.ts`), `${code}\n`);
    const files = examples.map((_, index) => `${name}${index}.ts`);
    const { status, stdout, stderr } = spawnSync(resolve('node_modules/.bin/biome'), ['lint', ...files], {
      cwd: folder,
      encoding: 'utf8',
    });
    return { status, output: stdout + stderr };
  };
  const { status, output } = lint('refused', refused);
  assert.equal(status, 1, output);
  assert.match(output, /Write an effect as an arrow function with a block/);
  for (const [index, code] of refused.entries())
    assert.ok(output.includes(`refused${index}.ts:1:`), `${code}\n${output}`);
  const { status: acceptedStatus, output: acceptedOutput } = lint('accepted', accepted);
  assert.equal(acceptedStatus, 0, acceptedOutput);
});
