/** SQLite binds at most 32,766 values in a statement, and a row to insert can have 20 of them. */
const chunkSize = 1000;

/** Splits values into chunks that one statement can bind. */
export function* chunks<T>(values: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < values.length; start += chunkSize) yield values.slice(start, start + chunkSize);
}
