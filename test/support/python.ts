import { execFileSync } from 'node:child_process';

/** Runs a program in Python, and returns its stdout. */
export function runPython(script: string, options: { args?: string[]; input?: string | Buffer } = {}): string {
  const { args = [], input = '' } = options;
  return execFileSync('python3', ['-c', script, ...args], { encoding: 'utf8', input });
}
