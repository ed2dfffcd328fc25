import { checkCentralDirectory, type ZipSummary } from './zip-directory.ts';
import type { ZipLimits } from './zip-entries.ts';
import { withZip, type ZipSource } from './zip-source.ts';

/** Checks the central directory of a zip as `checkCentralDirectory` does. After a failure (`invalid_zip`) a file is unchanged and closed. */
export async function inspectZip(source: ZipSource, limits: ZipLimits): Promise<ZipSummary> {
  return await withZip(source, (zip) => checkCentralDirectory(zip, limits, () => undefined));
}
