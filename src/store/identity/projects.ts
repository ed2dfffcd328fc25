import type { Db, Tx } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';

export type ProjectRecord = Omit<Row<'projects'>, 'autoJoin' | 'grantTimeSeconds' | 'grantSpaceBytes'> & {
  autoJoin: boolean;
  /** The grant of each new member. */
  grant: { timeSeconds: number; spaceBytes: number };
};

export type NewProject = Pick<ProjectRecord, 'hpc' | 'name' | 'autoJoin' | 'grant' | 'createdAt'>;

export async function findProject(db: Db, hpc: string, name: string): Promise<ProjectRecord | undefined> {
  const row = await db
    .selectFrom('projects')
    .selectAll()
    .where('hpc', '=', hpc)
    .where('name', '=', name)
    .executeTakeFirst();
  return row && toProjectRecord(row);
}

export async function getProject(db: Db, id: number): Promise<ProjectRecord> {
  return toProjectRecord(await db.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirstOrThrow());
}

export async function listProjects(db: Db, hpc?: string): Promise<ProjectRecord[]> {
  const query = db.selectFrom('projects').selectAll().orderBy('id');
  return (await (hpc === undefined ? query : query.where('hpc', '=', hpc)).execute()).map(toProjectRecord);
}

/** The caller has checked that the project does not exist. */
export async function insertProject(tx: Tx, project: NewProject): Promise<number> {
  const { id } = await tx
    .insertInto('projects')
    .values({ ...toColumns(project), hpc: project.hpc, name: project.name, createdAt: project.createdAt })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Locks a project until the transaction ends. Joining it and opening a period must see each other's writes. */
export async function lockProject(tx: Tx, id: number): Promise<void> {
  await tx
    .updateTable('projects')
    .set((eb) => ({ closedAt: eb.ref('closedAt') }))
    .where('id', '=', id)
    .execute();
}

/** Changes apply to new members only. */
export async function updateProject(tx: Tx, id: number, project: Pick<NewProject, 'autoJoin' | 'grant'>) {
  await tx.updateTable('projects').set(toColumns(project)).where('id', '=', id).execute();
}

/** A closed project rejects submissions. Closing it again changes nothing. */
export async function closeProject(tx: Tx, id: number, now: number): Promise<void> {
  await tx.updateTable('projects').set({ closedAt: now }).where('id', '=', id).where('closedAt', 'is', null).execute();
}

function toColumns({ autoJoin, grant }: Pick<NewProject, 'autoJoin' | 'grant'>) {
  return { autoJoin: Number(autoJoin), grantTimeSeconds: grant.timeSeconds, grantSpaceBytes: grant.spaceBytes };
}

export function toProjectRecord(row: Row<'projects'>): ProjectRecord {
  const { autoJoin, grantTimeSeconds, grantSpaceBytes, ...project } = row;
  const grant = { timeSeconds: grantTimeSeconds, spaceBytes: grantSpaceBytes };
  return { ...project, autoJoin: autoJoin === 1, grant };
}
