import { type CompiledQuery, type KyselyPlugin, sql } from 'kysely';
import { dialectOf } from '../../src/store/dialect.ts';
import type { Db } from '../../src/store/tables.ts';

export interface WatchedDb {
  db: Db;
  /** The statements that were run through it, with their values put in. */
  statements: string[];
}

export function watchStatements(db: Db): WatchedDb {
  const statements: string[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node, queryId }) => {
      const query = db.getExecutor().compileQuery(node, queryId);
      // One that is only being prepared has places where its values will be.
      if (query.parameters.every((value) => typeof value !== 'object')) statements.push(textOf(query));
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  const watched = db.withPlugin(plugin);
  const execute = watched.executeQuery.bind(watched);
  watched.executeQuery = (query, ...options) => {
    statements.push(textOf(query as CompiledQuery));
    return execute(query, ...options);
  };
  return { db: watched, statements };
}

function textOf({ sql: text, parameters }: CompiledQuery): string {
  let next = 0;
  return text.replace(/\?|\$\d+/g, () => literal(parameters[next++]));
}

const literal = (value: unknown) => (typeof value === 'number' ? String(value) : `'${value}'`);

/** What the database does for a statement: whether it looks at every job, and whether it puts what it found in order. */
export async function planOf(db: Db, statement: string): Promise<{ readsAll: boolean; sorts: boolean; text: string }> {
  const isSqlite = dialectOf(db).name === 'sqlite';
  const explain = sql.raw<Record<string, string>>(`explain ${isSqlite ? 'query plan' : ''} ${statement}`);
  const lines = (await explain.execute(db)).rows.map((row) => row.detail ?? row['QUERY PLAN'] ?? '');
  const text = `${statement}\n${lines.join('\n')}`;
  return {
    readsAll: lines.some((line) => /^SCAN (?!page)|Seq Scan/.test(line)),
    sorts: lines.some((line) => /TEMP B-TREE|\bSort\b/.test(line)),
    text,
  };
}
