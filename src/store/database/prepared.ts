import { type Compilable, type CompiledQuery, SelectQueryNode } from 'kysely';
import { type Dialect, dialectOf } from './dialect.ts';
import { runnerOf } from './direct.ts';
import { memoOf } from './query-cache.ts';
import type { Db } from './tables.ts';

/** Stands in a query for a value that is not known yet, and finds it among those that the query is run with. */
class Placeholder<Values> {
  readonly in: (values: Values) => unknown;

  constructor(find: (values: Values) => unknown) {
    this.in = find;
  }
}

/** Gives the place of a value, by its name. */
export type Value<Values> = <Name extends keyof Values & string>(name: Name) => Required<Values>[Name];

/** The same for one that has no name. */
type Found<Values> = (find: (values: Values) => unknown) => unknown;

type Build<Values, Row> = (db: Db, value: Value<Values>, found: Found<Values>) => Compilable<Row>;
export type Prepared<Values, Row> = (db: Db, values: Values) => Promise<readonly Row[]>;

const names = new Map<string, string>();

/** The name of a query that was put together here: a server that is told it parses the query once a connection. */
export function nameOf(text: string): string | undefined {
  return names.get(text);
}

/** A query, and how each of its parameters is found among the values. */
interface Known<Values, Row> {
  query: CompiledQuery<Row>;
  isRead: boolean;
  finders: readonly ((values: Values) => unknown)[];
}

/**
 * A query that is put together once for each kind of database, and then run with other values each time. For those that
 * every request needs: putting a query together takes longer than running it.
 */
export function prepared<Values extends object, Row>(build: Build<Values, Row>): Prepared<Values, Row> {
  const all = new Map<Dialect, Known<Values, Row>>();

  function knownFor(db: Db): Known<Values, Row> {
    const dialect = dialectOf(db);
    const known = all.get(dialect);
    if (known !== undefined) return known;
    const found: Found<Values> = (find) => new Placeholder(find);
    const query = build(db, (name) => found((values) => values[name]) as never, found).compile();
    if (!names.has(query.sql)) names.set(query.sql, `bursar_${names.size + 1}`);
    const finders = query.parameters.map((value) =>
      value instanceof Placeholder ? (value.in as (values: Values) => unknown) : () => value,
    );
    const made = { query, isRead: SelectQueryNode.is(query.query), finders };
    all.set(dialect, made);
    return made;
  }

  return async (db, values) => {
    const { query, isRead, finders } = knownFor(db);
    const parameters = finders.map((find) => find(values));
    const run = runnerOf(db, isRead);
    if (run !== undefined) return run({ sql: query.sql, parameters }).rows as readonly Row[];
    return (await db.executeQuery<Row>({ ...query, parameters })).rows;
  };
}

let memories = 0;

/** The same for a query that only reads, and is not run at all where it is known to give the same rows as before. */
export function remembered<Values extends object, Row>(build: Build<Values, Row>): Prepared<Values, Row> {
  const run = prepared(build);
  const name = ++memories;
  return async (db, values) => {
    const memo = memoOf(db);
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

/** Queries of one kind that differ in their shape, such as in what they are filtered by: each is prepared once. */
export function byShape<Shape extends string | number, Query>(
  prepare: (shape: Shape) => Query,
): (shape: Shape) => Query {
  const known = new Map<Shape, Query>();
  return (shape) => {
    const query = known.get(shape) ?? prepare(shape);
    known.set(shape, query);
    return query;
  };
}
