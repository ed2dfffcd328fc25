import { parseScopes, type TokenScope } from '../../domain/identity/policy.ts';
import type { Db, Tx } from '../database/handle.ts';
import type { DeviceRequestState } from '../database/tables.ts';

export interface NewDeviceRequest {
  deviceHash: string;
  userCodeHash: string;
  clientName: string;
  scopes: ReadonlySet<TokenScope>;
  /** Of the program that asks. */
  address: string;
  createdAt: number;
  expiresAt: number;
  intervalSeconds: number;
}

export interface DeviceRequest extends NewDeviceRequest {
  id: number;
  lastPolledAt: number;
  state: DeviceRequestState;
  /** The user who decided. */
  userId: string | null;
}

export async function insertDeviceRequest(db: Db, request: NewDeviceRequest): Promise<void> {
  await db
    .insertInto('deviceRequests')
    .values({
      deviceHash: request.deviceHash,
      userCodeHash: request.userCodeHash,
      clientName: request.clientName,
      scopes: [...request.scopes].join(' '),
      address: request.address,
      createdAt: request.createdAt,
      expiresAt: request.expiresAt,
      intervalSeconds: request.intervalSeconds,
      lastPolledAt: 0,
      state: 'pending',
    })
    .execute();
}

/** Reads a request and locks it until the transaction ends. */
export async function lockDeviceRequest(tx: Tx, deviceHash: string): Promise<DeviceRequest | undefined> {
  const query = selectRequests(tx).where('deviceHash', '=', deviceHash);
  const row = await (tx.backend.dialect.locksRows ? query.forNoKeyUpdate() : query).executeTakeFirst();
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
    .set({ state, userId, scopes: [...scopes].join(' ') })
    .where('id', '=', id)
    .where('state', '=', 'pending')
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function deleteDeviceRequest(tx: Tx, id: number): Promise<void> {
  await tx.deleteFrom('deviceRequests').where('id', '=', id).execute();
}

type Row = Awaited<ReturnType<ReturnType<typeof selectRequests>['executeTakeFirstOrThrow']>>;

function selectRequests(db: Db) {
  return db
    .selectFrom('deviceRequests')
    .select([
      'id',
      'deviceHash',
      'userCodeHash',
      'clientName',
      'scopes',
      'address',
      'createdAt',
      'expiresAt',
      'intervalSeconds',
      'lastPolledAt',
      'state',
      'userId',
    ]);
}

const toRecord = ({ scopes, ...row }: Row): DeviceRequest => ({ ...row, scopes: parseScopes(scopes) });
