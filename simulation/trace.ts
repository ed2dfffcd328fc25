import { createHash, type Hash } from 'node:crypto';
import { tasks, virtualNow } from './virtual-time.ts';

// The trace of a history: lines for people, and a hash of everything that happened.

let hash: Hash = createHash('sha256');
let unhashed = '';
let lines: string[] = [];

export const traceLines = () => lines;
export const traceHash = () => hash.copy().update(unhashed).digest('hex').slice(0, 16);

export function resetTrace(): void {
  hash = createHash('sha256');
  unhashed = '';
  lines = [];
}

/** The data folder has another name in every process, and errors of files name it. */
let dataFolder = '';
export function hideDataFolder(folder: string): void {
  dataFolder = folder;
}

/** Adds a line that people read to the trace. */
export function record(message: string): void {
  const text = message.replaceAll(dataFolder, '');
  const line = `${(virtualNow() / 1000).toFixed(3).padStart(9)} ${(tasks.getStore()?.process.name ?? '').padEnd(4)} ${text}`;
  lines.push(line);
  addToHash(`${line}\n`);
}

/** Adds something to the hash of the trace that nobody wants to read, such as a statement. */
export function recordSilently(text: string): void {
  addToHash(`${virtualNow()} ${tasks.getStore()?.process.name} ${text}\n`);
}

/** In large parts: most texts are short. */
function addToHash(text: string): void {
  unhashed += text;
  if (unhashed.length < 100_000) return;
  hash.update(unhashed);
  unhashed = '';
}
