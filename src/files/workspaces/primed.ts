/** The same items, the first of which has come already: what fails at once is thrown here, where it can be answered. */
export async function primed<T>(items: AsyncIterable<T>): Promise<AsyncIterable<T>> {
  const source = items[Symbol.asyncIterator]();
  let next = await source.next();
  async function* all() {
    try {
      for (; !next.done; next = await source.next()) yield next.value;
    } finally {
      await source.return?.();
    }
  }
  return all();
}
