/** A file, identified by device and inode, with its number of hard links. */
export interface LinkedFile {
  id: string;
  links: number;
}

/**
 * Whether all hard links of a file are among the files of its workspace. A job can create a hard link in its own folder to a
 * file elsewhere. Such a file has more links than the workspace contains. Reads the files only until all links are found.
 */
export async function hasOnlyInnerLinks({ id, links }: LinkedFile, files: AsyncIterable<LinkedFile>): Promise<boolean> {
  let count = 0;
  for await (const file of files) if (file.id === id && ++count === links) return true;
  return false;
}

/** Returns a function that tells the same of many files of one workspace. The files are listed at most once, when needed. */
export function createHardLinkCheck(listFiles: () => AsyncIterable<LinkedFile>) {
  let counts: Promise<ReadonlyMap<string, number>> | undefined;
  return async (file: LinkedFile): Promise<boolean> => {
    if (file.links === 1) return true;
    counts ??= countLinks(listFiles());
    return (await counts).get(file.id) === file.links;
  };
}

/** Counts how often each file with several hard links occurs. */
async function countLinks(files: AsyncIterable<LinkedFile>): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for await (const { id, links } of files) if (links > 1) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}
