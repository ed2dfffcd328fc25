import { type CompiledQuery, type KyselyPlugin, sql } from 'kysely';
import type { Db } from '../../src/store/database/handle.ts';

export interface RecordedDb {
  db: Db;
  /** The statements that were run through it, with their values put in. */
  statements: string[];
}

export function recordStatements(db: Db): RecordedDb {
  const statements: string[] = [];
  // A handle of its own: what the plugin leaves as it is, goes through an executor that nobody else has.
  const untouched: KyselyPlugin = { transformQuery: ({ node }) => node, transformResult: async ({ result }) => result };
  const watched = db.withPlugin(untouched);
  const executor = watched.getExecutor();
  const execute = executor.executeQuery.bind(executor);
  executor.executeQuery = (query, ...options) => {
    statements.push(toSqlText(query));
    return execute(query, ...options);
  };
  const backend = {
    ...db.backend,
    run: async (handle, query) => (await handle.executeQuery(query)).rows,
  } as Db['backend'];
  return { db: Object.assign(watched, { backend }), statements };
}

function toSqlText({ sql: text, parameters }: CompiledQuery): string {
  let next = 0;
  return text.replace(/\?|\$\d+/g, () => literal(parameters[next++]));
}

const literal = (value: unknown) => (typeof value === 'number' ? String(value) : `'${value}'`);

/** What the database does for a statement: whether it looks at every job, and whether it puts what it found in order. */
export async function explainStatement(
  db: Db,
  statement: string,
): Promise<{ readsAll: boolean; sorts: boolean; text: string }> {
  const isSqlite = db.backend.dialect.name === 'sqlite';
  const explain = sql.raw<Record<string, string>>(`explain ${isSqlite ? 'query plan' : ''} ${statement}`);
  const lines = (await explain.execute(db)).rows.map((row) => row.detail ?? row['QUERY PLAN'] ?? '');
  const text = `${statement}\n${lines.join('\n')}`;
  return {
    readsAll: lines.some((line) => /^SCAN jobs|Seq Scan on jobs/.test(line)),
    sorts: lines.some((line) => /TEMP B-TREE|\bSort\b/.test(line)),
    text,
  };
}
