/** The items of an asynchronous sequence. (`Array.fromAsync` is newer than the oldest Node on which some tests run.) */
export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
