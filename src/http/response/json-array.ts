import { Readable } from 'node:stream';

/** A longer list is sent unsorted while it is read, so that memory stays bounded. */
const maxSortedItems = 10_000;

/** Streams items as a JSON array. An error among the first items is thrown before anything is sent. */
export async function streamJsonArray<T>(
  items: AsyncIterable<T>,
  toPublic: (item: T) => unknown,
  compare: (a: T, b: T) => number,
): Promise<Readable> {
  const iterator = items[Symbol.asyncIterator]();
  const first: T[] = [];
  let next = await iterator.next();
  for (; !next.done && first.length < maxSortedItems; next = await iterator.next()) first.push(next.value);
  if (next.done) first.sort(compare);

  async function* text() {
    try {
      yield `[${first.map((item) => JSON.stringify(toPublic(item))).join(',')}`;
      for (; !next.done; next = await iterator.next()) yield `,${JSON.stringify(toPublic(next.value))}`;
      yield ']';
    } finally {
      await iterator.return?.();
    }
  }
  return Readable.from(text(), { objectMode: false });
}
