import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EngineJob } from '../../src/engines/engine.ts';

/** A job that runs until it is told to finish, and says how often it ran. */
export const hold = line('echo ran >> runs; while [ ! -e release ]; do sleep 0.05; done');
export const count = line('echo ran >> runs');

export function line(text: string): Pick<EngineJob, 'command'> {
  return { command: { kind: 'line', line: text } };
}

export function argv(...words: string[]): Pick<EngineJob, 'command'> {
  return { command: { kind: 'argv', argv: words } };
}

export function script(path: string, ...args: string[]): Pick<EngineJob, 'command'> {
  return { command: { kind: 'script', script: path, args } };
}

export const release = (job: EngineJob) => writeFile(join(job.workspace.directory, 'release'), '');
export const put = (job: EngineJob, name: string, content: string) =>
  writeFile(join(job.workspace.directory, name), content);
export const runsOf = (job: EngineJob) =>
  readFile(join(job.workspace.directory, 'runs'), 'utf8').then(
    (text) => text.trim().split('\n').length,
    () => 0,
  );
