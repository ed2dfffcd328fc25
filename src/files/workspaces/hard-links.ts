/** A file, identified by device and inode, with its number of hard links. */
export interface LinkedFile {
  id: string;
  links: number;
}

/**
 * Returns a function that tells whether all hard links of a file are inside the workspace. A job can create a hard link
 * in its own folder to a file elsewhere. Such a file has more links than the workspace contains.
 *
 * `count` runs at most once, and only when the first file with several links is checked.
 */
export function createHardLinkCheck(count: () => Promise<ReadonlyMap<string, number>>) {
  let counts: Promise<ReadonlyMap<string, number>> | undefined;
  return async (file: LinkedFile): Promise<boolean> => {
    if (file.links === 1) return true;
    counts ??= count();
    return (await counts).get(file.id) === file.links;
  };
}

/** Counts how often each file with several hard links occurs. */
export async function countLinks(files: AsyncIterable<LinkedFile>): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for await (const { id, links } of files) if (links > 1) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}
