import { Readable } from 'node:stream';

/** So many are collected and sorted; more are sent as they come, so that any number fits into memory. */
const sortedAtMost = 10_000;

/** A JSON array that is written while its items come. A failure among the first ones is thrown, and can be answered. */
export async function jsonArray<T>(
  items: AsyncIterable<T>,
  publicOf: (item: T) => unknown,
  order: (one: T, other: T) => number,
): Promise<Readable> {
  const source = items[Symbol.asyncIterator]();
  const first: T[] = [];
  let next = await source.next();
  for (; !next.done && first.length < sortedAtMost; next = await source.next()) first.push(next.value);
  if (next.done) first.sort(order);

  async function* text() {
    try {
      yield `[${first.map((item) => JSON.stringify(publicOf(item))).join(',')}`;
      for (; !next.done; next = await source.next()) yield `,${JSON.stringify(publicOf(next.value))}`;
      yield ']';
    } finally {
      await source.return?.();
    }
  }
  return Readable.from(text(), { objectMode: false });
}
