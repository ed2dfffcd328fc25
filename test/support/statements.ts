import { type CompiledQuery, type KyselyPlugin, sql } from 'kysely';
import type { Db } from '../../src/store/database/handle.ts';

export interface RecordedDb {
  db: Db;
  /** The executed statements, with their values inserted. */
  statements: string[];
}

export function recordStatements(db: Db): RecordedDb {
  const statements: string[] = [];
  // A plugin without effect gives the handle its own executor, so that the original handle is not recorded.
  const noopPlugin: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => result,
  };
  const recorded = db.withPlugin(noopPlugin);
  const executor = recorded.getExecutor();
  const execute = executor.executeQuery.bind(executor);
  executor.executeQuery = (query, ...options) => {
    statements.push(toSqlText(query));
    return execute(query, ...options);
  };
  const backend = {
    ...db.backend,
    run: async (handle, query) => (await handle.executeQuery(query)).rows,
  } as Db['backend'];
  return { db: Object.assign(recorded, { backend }), statements };
}

function toSqlText({ sql: text, parameters }: CompiledQuery): string {
  let next = 0;
  return text.replace(/\?|\$\d+/g, () => literal(parameters[next++]));
}

const literal = (value: unknown) => (typeof value === 'number' ? String(value) : `'${value}'`);

/** Explains a statement: whether it scans the whole table of jobs, and whether it sorts. */
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
