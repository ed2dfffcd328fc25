import { withZip, type ZipSource } from '../../../src/files/zip/zip-content.ts';
import type { ZipLimits } from '../../../src/files/zip/zip-entries.ts';

/** Checks the central directory of a zip, and counts what it has. */
export const inspectZip = (source: ZipSource, limits: ZipLimits) =>
  withZip(source, limits, async ({ entries, unpackedBytes }) => ({ entries: entries.length, unpackedBytes }));
