import { sql } from 'kysely';
import { BursarError } from '../../domain/errors.ts';
import expectedSchema from './expected-schema.json' with { type: 'json' };
import type { Db } from './handle.ts';

/** The definition of each object, such as `bigint not null` of `column jobs.units`. */
export type Schema = Readonly<Record<string, string>>;

/** Describes the tables in the same way for both databases. */
export async function describeSchema(db: Db): Promise<Schema> {
  const query = sql.raw<{ object: string; definition: string }>(db.backend.dialect.schemaQuery);
  const { rows } = await query.execute(db);
  return Object.fromEntries(rows.map(({ object, definition }) => [object, definition]).sort());
}

/**
 * How the schema differs from the one that the migrations of this version produce: missing or different objects. Additions of
 * an operator or of a newer version, such as an index, do no harm, except a column that every new row would have to fill.
 */
export async function findSchemaDifferences(db: Db): Promise<string[]> {
  const expected: Schema = expectedSchema;
  const actual = await describeSchema(db);
  const changed = Object.entries(expected).flatMap(([object, definition]) => {
    const found = actual[object];
    if (found === undefined) return [`${object} is missing`];
    return found === definition ? [] : [`${object} is "${found}" instead of "${definition}"`];
  });
  const added = Object.entries(actual).flatMap(([object, definition]) => {
    if (Object.hasOwn(expected, object)) return [];
    const [, table] = /^column ([^.]+)/.exec(object) ?? [];
    const isRequired = definition.endsWith('not null') && Object.hasOwn(expected, `primary key ${table}`);
    return isRequired ? [`${object} is not known, and must be filled`] : [];
  });
  return [...changed, ...added];
}

/** Throws unless the schema is the expected one: with any other one, requests would fail again and again. */
export async function requireExpectedSchema(db: Db): Promise<void> {
  const [first, ...others] = await findSchemaDifferences(db);
  if (first === undefined) return;
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  throw new BursarError(
    'schema_differs',
    `The schema of the database is not the one of this version of Bursar: ${first}${more}. It was changed by hand, or ` +
      'created by a version with other migrations: use that version, or restore a backup into a new database. ' +
      '"bursar db status" lists all differences.',
  );
}
