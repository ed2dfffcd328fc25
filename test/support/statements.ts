import { type KyselyPlugin, sql } from 'kysely';
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
      const { sql: text, parameters } = db.getExecutor().compileQuery(node, queryId);
      let next = 0;
      statements.push(text.replace(/\?|\$\d+/g, () => literal(parameters[next++])));
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  return { db: db.withPlugin(plugin), statements };
}

const literal = (value: unknown) => (typeof value === 'number' ? String(value) : `'${value}'`);

/** What the database does for a statement: whether it looks at every job, and whether it puts what it found in order. */
export async function planOf(db: Db, statement: string): Promise<{ readsAll: boolean; sorts: boolean; text: string }> {
  const isSqlite = dialectOf(db).name === 'sqlite';
  const explain = sql.raw<Record<string, string>>(`explain ${isSqlite ? 'query plan' : ''} ${statement}`);
  const lines = (await explain.execute(db)).rows.map((row) => row.detail ?? row['QUERY PLAN'] ?? '');
  const text = `${statement}\n${lines.join('\n')}`;
  return {
    readsAll: lines.some((line) => /^SCAN|Seq Scan/.test(line)),
    sorts: lines.some((line) => /TEMP B-TREE|\bSort\b/.test(line)),
    text,
  };
}
