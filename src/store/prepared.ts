import { type Compilable, type CompiledQuery, SelectQueryNode } from 'kysely';
import { type Dialect, dialectOf } from './dialect.ts';
import { memoOf } from './memo.ts';
import type { Db } from './tables.ts';

/** Stands in a query for a value that is not known yet. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** Gives the place of a value, by its name. */
export type Value<Values> = <Name extends keyof Values>(name: Name) => Values[Name];

let count = 0;

/**
 * A query that is put together once for each kind of database, and then run with other values each time; where that is
 * known to give the same rows as before, it is not run at all. For those that every request needs: putting a query
 * together takes longer than running it.
 */
export function prepared<Values extends object, Row>(
  build: (db: Db, value: Value<Values>) => Compilable<Row>,
): (db: Db, values: Values) => Promise<readonly Row[]> {
  const queries = new Map<Dialect, CompiledQuery<Row>>();
  const name = ++count;

  function queryFor(db: Db): CompiledQuery<Row> {
    const dialect = dialectOf(db);
    const known = queries.get(dialect);
    if (known !== undefined) return known;
    const query = build(db, (value) => new Placeholder(String(value)) as never).compile();
    queries.set(dialect, query);
    return query;
  }

  async function run(db: Db, values: Values): Promise<readonly Row[]> {
    const query = queryFor(db);
    const known = values as Record<string, unknown>;
    const parameters = query.parameters.map((value) => (value instanceof Placeholder ? known[value.name] : value));
    return (await db.executeQuery<Row>({ ...query, parameters })).rows;
  }

  return async (db, values) => {
    const memo = SelectQueryNode.is(queryFor(db).query) ? memoOf(db) : undefined;
    if (memo === undefined) return await run(db, values);
    const version = memo.version();
    const key = `${name} ${JSON.stringify(values)}`;
    const known = memo.get(version, key);
    if (known !== undefined) return known as readonly Row[];
    const rows = await run(db, values);
    memo.put(version, key, rows);
    return rows;
  };
}
