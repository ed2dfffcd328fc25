/** SQLite binds at most 32,766 values in a statement, and a row to insert can have 25 of them; a command has a maximum length. */
const defaultSize = 500;

/** Splits values into chunks that one statement or one command can take. */
export function* chunks<T>(values: readonly T[], size = defaultSize): Generator<readonly T[]> {
  for (let start = 0; start < values.length; start += size) yield values.slice(start, start + size);
}
