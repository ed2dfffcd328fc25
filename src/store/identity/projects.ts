import type { Db, Tx } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';

export type ProjectRecord = Row<'projects'>;

export type NewProject = Omit<ProjectRecord, 'id' | 'closedAt'>;

export async function findProject(db: Db, hpc: string, name: string): Promise<ProjectRecord | undefined> {
  const query = db.selectFrom('projects').selectAll().where('hpc', '=', hpc);
  return await query.where('name', '=', name).executeTakeFirst();
}

export async function getProject(db: Db, id: number): Promise<ProjectRecord> {
  return await db.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

export async function listProjects(db: Db, hpc?: string): Promise<ProjectRecord[]> {
  const query = db.selectFrom('projects').selectAll().orderBy('id');
  return await (hpc === undefined ? query : query.where('hpc', '=', hpc)).execute();
}

/** The caller has checked that the project does not exist. */
export async function insertProject(tx: Tx, project: NewProject): Promise<number> {
  const { id } = await tx.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow();
  return id;
}

/** Locks a project until the transaction ends. Joining it and opening a period must see each other's writes. */
export async function lockProject(tx: Tx, id: number): Promise<void> {
  await tx.selectFrom('projects').select('id').where('id', '=', id).forNoKeyUpdate().execute();
}

/** Changes apply to new members only. */
export async function updateProject(tx: Tx, id: number, project: NewProject): Promise<void> {
  const { autoJoin, grantTimeSeconds, grantSpaceBytes } = project;
  const values = { autoJoin, grantTimeSeconds, grantSpaceBytes };
  await tx.updateTable('projects').set(values).where('id', '=', id).execute();
}

/** A closed project rejects submissions. Closing it again changes nothing. */
export async function closeProject(tx: Tx, id: number, now: number): Promise<void> {
  await tx.updateTable('projects').set({ closedAt: now }).where('id', '=', id).where('closedAt', 'is', null).execute();
}
