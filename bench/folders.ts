import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bench } from './benchmark.ts';

/** A folder that goes when the benchmark is over. */
export function temporaryFolder(bench: Bench, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `bursar-bench-${name}-`));
  bench.defer(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
