import type { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { type AuditActor, insertAudits, type NewAuditRecord } from '../../store/identity/audit.ts';
import { RefusedAccess } from './refused-access.ts';

/** The actor of requests without valid credentials. */
const anonymous = 'anonymous';

export interface RefusedRequest {
  error: BursarError;
  /** Null if the credentials are not valid. */
  caller: AuditActor | null;
  address: string;
  requestId: string;
  method: string;
  /** Without the query. */
  path: string;
}

export interface RefusalRecorderDeps {
  db: Db;
  now(): number;
  log: { warn(fields: object, message: string): void };
  writeIntervalMs?: number;
  repeatIntervalMs?: number;
}

export interface RefusalRecorder {
  record(refused: RefusedRequest): void;
  /** Writes the records that are not written yet, and stops. */
  stop(): Promise<void>;
}

/** Requests of one actor that were refused for the same reason. */
interface Refusals {
  /** Actor, address and reason. */
  source: string;
  record: Omit<NewAuditRecord, 'at'>;
  /** Since the last write. */
  count: number;
  firstAt: number;
  /** 0 if they were never written. */
  writtenAt: number;
}

/** Beyond this many different paths of one actor at a time, the others are counted together. */
const maxPathsOfActor = 20;
/** Beyond this many different refusals at a time, the paths of every actor are counted together, and then its addresses. */
const maxRefusals = 1000;
const maxPathLength = 200;

/**
 * Records refused requests in the audit trail: at most one write per second, and one record per minute for equal requests,
 * with their number. Nobody can fill the database, or slow down others, with requests that are refused anyway.
 */
export function createRefusalRecorder(deps: RefusalRecorderDeps): RefusalRecorder {
  const { db, now, log, writeIntervalMs = 1000, repeatIntervalMs = 60_000 } = deps;
  const refusals = new Map<string, Refusals>();
  let timer: NodeJS.Timeout | undefined;
  let lastWrite: Promise<void> = Promise.resolve();

  function count(key: string, source: string, record: Omit<NewAuditRecord, 'at'>): void {
    const known = refusals.get(key);
    if (known === undefined) refusals.set(key, { source, record, count: 1, firstAt: now(), writtenAt: 0 });
    else {
      if (known.count === 0) known.firstAt = now();
      known.count += 1;
    }
  }

  function hasRoomForPath(source: string): boolean {
    if (refusals.size >= maxRefusals) return false;
    return [...refusals.values()].filter((refused) => refused.source === source).length < maxPathsOfActor;
  }

  async function write(isDue: (refused: Refusals) => boolean): Promise<void> {
    const due = [...refusals.values()].filter((refused) => refused.count > 0 && isDue(refused));
    if (due.length === 0) return;
    const counts = due.map(({ count }) => count);
    const records = due.map(({ record, firstAt, count }) => ({
      ...record,
      details: { ...record.details, ...(count === 1 ? {} : { count }) },
      at: firstAt,
    }));
    try {
      await inTransaction(db, (tx) => insertAudits(tx, records));
    } catch (error) {
      log.warn({ err: error }, 'refused requests are not recorded yet, will retry');
      return;
    }
    for (const [index, refused] of due.entries()) {
      refused.count -= counts[index] ?? 0;
      refused.writtenAt = now();
    }
  }

  function schedule(): void {
    timer ??= setTimeout(async () => {
      lastWrite = write(({ writtenAt }) => writtenAt === 0 || writtenAt + repeatIntervalMs <= now());
      await lastWrite;
      for (const [key, { count, writtenAt }] of refusals) {
        if (count === 0 && writtenAt + repeatIntervalMs <= now()) refusals.delete(key);
      }
      timer = undefined;
      if (refusals.size > 0) schedule();
    }, writeIntervalMs).unref();
  }

  return {
    record(refused) {
      const record = toRecord(refused);
      const { userId, address, tokenId } = record.actor;
      const { code } = refused.error;
      const source = JSON.stringify([userId, address, tokenId, code]);
      const key = JSON.stringify([source, record.subject]);
      const severalPaths = { ...record, subject: 'several paths' };
      if (refusals.has(key) || hasRoomForPath(source)) count(key, source, record);
      else if (refusals.has(source) || refusals.size < 2 * maxRefusals) count(source, source, severalPaths);
      else {
        const actor = { ...record.actor, address: null, tokenId: null, sessionId: null, requestId: null };
        count(JSON.stringify([userId, code]), source, { ...severalPaths, actor });
      }
      schedule();
    },
    async stop() {
      clearTimeout(timer);
      await lastWrite;
      await write(() => true);
    },
  };
}

function toRecord({ error, caller, address, requestId, method, path }: RefusedRequest): Omit<NewAuditRecord, 'at'> {
  const { code, cause, details } = error;
  const known = cause instanceof RefusedAccess ? cause : undefined;
  const unknownCaller = { userId: known?.userId ?? anonymous, tokenId: known?.tokenId ?? null, sessionId: null };
  return {
    actor: caller ?? { ...unknownCaller, address, requestId },
    action: 'access.refused',
    subject: `${method} ${path.slice(0, maxPathLength)}`,
    details: { code, ...details, ...(known === undefined ? {} : { reason: known.message }) },
  };
}
