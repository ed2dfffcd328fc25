import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { benchmarks } from '../../../bench/benchmarks.ts';
import type { Report } from '../../../bench/report.ts';

const program = fileURLToPath(new URL('../../../bench/main.ts', import.meta.url));
const names = benchmarks.map(({ name }) => name);

test('npm run bench -- --smoke runs the benchmarks and reports figures of each, without judging them', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-bench-test-'));
  const out = join(folder, 'results.json');
  const child = spawn(process.execPath, [program, '--smoke', '--out', out, ...names], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const [code] = await once(child, 'exit');
  assert.equal(code, 0, output);
  const { rows, judged, notRun } = JSON.parse(readFileSync(out, 'utf8')) as Report;
  rmSync(folder, { recursive: true });
  assert.equal(judged, false);
  assert.deepEqual(notRun, {});
  assert.deepEqual([...new Set(rows.map(({ benchmark }) => benchmark))].sort(), names.toSorted());
  assert.equal(rows.length, 49);
  for (const { scenario, figure } of rows) {
    assert.ok(Number.isFinite(figure.median), `${scenario}: ${JSON.stringify(figure)}`);
    assert.ok(output.includes(`| ${scenario}`), `the table has no row for ${scenario}`);
  }
});
