/** Reads all pages of a list, newest first, whose pages go on before the last id of the page before. */
export async function readAllPages<T extends { id: number }>(
  read: (page: { limit: number; before?: number }) => Promise<T[]>,
): Promise<T[]> {
  const limit = 200;
  const items: T[] = [];
  for (;;) {
    const last = items.at(-1);
    const page = await read({ limit, ...(last === undefined ? {} : { before: last.id }) });
    items.push(...page);
    if (page.length < limit) return items;
  }
}
