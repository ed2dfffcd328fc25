import type { Account } from '../../sandbox/arguments.ts';
import { findPrivateFiles } from '../../sandbox/host.ts';

/** The private files of this host, which jobs must not see. The search is shared by the jobs that start in the same second. */
export interface PrivateFiles {
  find(account: Account | undefined, options: { mustBeNew: boolean }): readonly string[];
}

/**
 * A file that has become private since is visible to the jobs that start until the next search, as it is to those that run
 * already.
 */
const maxAgeMs = 1000;

export function createPrivateFiles(): PrivateFiles {
  /** By the id of the account: root sees more. */
  const searches = new Map<number | undefined, { searchedAt: number; files: readonly string[] }>();
  return {
    find(account, { mustBeNew }) {
      const earlier = searches.get(account?.uid);
      if (!mustBeNew && earlier !== undefined && performance.now() - earlier.searchedAt < maxAgeMs)
        return earlier.files;
      const searchedAt = performance.now();
      const files = findPrivateFiles(account);
      searches.set(account?.uid, { searchedAt, files });
      return files;
    },
  };
}
