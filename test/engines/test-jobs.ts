import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { EngineJob } from '../../src/engines/engine.ts';

/** Runs until `letFinish` is called, however late. Like `runOnce`, it records each run for `countRuns`. */
export const runUntilReleased = {
  ...shellLine('echo ran >> runs; while [ ! -e release ]; do sleep 0.05; done'),
  runtimeSeconds: 600,
};
export const runOnce = shellLine('echo ran >> runs');

export function shellLine(text: string): Pick<EngineJob, 'command'> {
  return { command: { kind: 'line', line: text } };
}

export function argv(...words: string[]): Pick<EngineJob, 'command'> {
  return { command: { kind: 'argv', argv: words } };
}

export function script(path: string, ...args: string[]): Pick<EngineJob, 'command'> {
  return { command: { kind: 'script', script: path, args } };
}

export const letFinish = (job: EngineJob) => writeFile(join(job.workspace.directory, 'release'), '');
export async function writeInput(job: EngineJob, name: string, content: string): Promise<void> {
  const path = join(job.workspace.directory, name);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}
export const countRuns = (job: EngineJob) =>
  readFile(join(job.workspace.directory, 'runs'), 'utf8').then(
    (text) => text.trim().split('\n').length,
    () => 0,
  );
