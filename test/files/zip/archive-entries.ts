import { Readable } from 'node:stream';
import type { ArchiveEntry } from '../../../src/files/zip/zip-writer.ts';

export const createEntry = (path: string, content: Iterable<Buffer>, size: number, more = {}): ArchiveEntry => ({
  kind: 'file',
  path,
  modifiedAt: Date.UTC(2026, 4, 3, 2, 1, 7),
  mode: 0o640,
  size,
  open: async () => Readable.from(content, { objectMode: false }),
  ...more,
});

export async function* toAsync<T>(items: Iterable<T>) {
  yield* items;
}
