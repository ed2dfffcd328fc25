import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The folder of the compiled code that all processes of the tests share. Saves a third of the startup time of a test file. */
export const compileCache = process.env.NODE_COMPILE_CACHE ?? join(tmpdir(), 'bursar-tests-compiled');

/**
 * Lets the supervisors of a local engine use the shared compiled code. Engines in a test's own process run them from the
 * TypeScript sources: with an empty cache, the start of each of the first jobs would take 0.4 s of CPU time instead of 0.1 s.
 */
export function shareCompileCache(engineFolder: string): void {
  if (existsSync(engineFolder)) return;
  mkdirSync(compileCache, { recursive: true });
  mkdirSync(engineFolder, { recursive: true, mode: 0o700 });
  symlinkSync(compileCache, join(engineFolder, '.cache'));
}
