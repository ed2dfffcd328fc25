import { formatScopes, parseScopes, type TokenScope } from '../../domain/identity/policy.ts';
import type { Db, Tx } from '../database/handle.ts';
import type { NewRow, Row } from '../database/tables.ts';

type WithScopes<Row> = Omit<Row, 'scopes'> & { scopes: ReadonlySet<TokenScope> };

export type DeviceRequest = WithScopes<Row<'deviceRequests'>>;

export async function insertDeviceRequest(
  db: Db,
  request: WithScopes<Omit<NewRow<'deviceRequests'>, 'lastPolledAt' | 'state'>>,
): Promise<void> {
  const scopes = formatScopes(request.scopes);
  await db
    .insertInto('deviceRequests')
    .values({ ...request, scopes, lastPolledAt: 0, state: 'pending' })
    .execute();
}

/** Reads a request and locks it until the transaction ends. */
export async function lockDeviceRequest(tx: Tx, deviceHash: string): Promise<DeviceRequest | undefined> {
  const row = await selectRequests(tx).where('deviceHash', '=', deviceHash).forNoKeyUpdate().executeTakeFirst();
  return row && toRecord(row);
}

export async function findDeviceRequestByUserCode(db: Db, userCodeHash: string): Promise<DeviceRequest | undefined> {
  const row = await selectRequests(db).where('userCodeHash', '=', userCodeHash).executeTakeFirst();
  return row && toRecord(row);
}

export async function storePoll(tx: Tx, id: number, at: number, intervalSeconds: number): Promise<void> {
  const values = { lastPolledAt: at, intervalSeconds };
  await tx.updateTable('deviceRequests').set(values).where('id', '=', id).execute();
}

/** Returns false if the request is no longer pending: of two decisions the first one counts. */
export async function decideDeviceRequest(
  tx: Tx,
  id: number,
  decision: { state: 'approved' | 'denied'; userId: string; scopes: ReadonlySet<TokenScope> },
): Promise<boolean> {
  const { state, userId, scopes } = decision;
  const row = await tx
    .updateTable('deviceRequests')
    .set({ state, userId, scopes: formatScopes(scopes) })
    .where('id', '=', id)
    .where('state', '=', 'pending')
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function deleteDeviceRequest(tx: Tx, id: number): Promise<void> {
  await tx.deleteFrom('deviceRequests').where('id', '=', id).execute();
}

const selectRequests = (db: Db) => db.selectFrom('deviceRequests').selectAll();

const toRecord = ({ scopes, ...row }: Row<'deviceRequests'>): DeviceRequest => ({
  ...row,
  scopes: parseScopes(scopes),
});
