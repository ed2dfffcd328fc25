/**
 * Whether all the names of a file are in its workspace. A job can give a file that lies elsewhere a name in its own
 * folder; what tells it from a file of the job's own is that it has more names than are found there.
 */
export function createHardLinkCheck(count: () => Promise<ReadonlyMap<string, number>>) {
  let counted: Promise<ReadonlyMap<string, number>> | undefined;
  return async (file: { id: string; names: number }): Promise<boolean> => {
    if (file.names === 1) return true;
    counted ??= count();
    return (await counted).get(file.id) === file.names;
  };
}

/** How often each file was met, of those that have several names. */
export async function countLinks(
  files: AsyncIterable<{ id: string; names: number }>,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for await (const { id, names } of files) if (names > 1) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}
