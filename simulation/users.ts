import { createHmac } from 'node:crypto';
import { BursarError } from '../src/domain/errors.ts';
import type { IdempotentRequest } from '../src/services/idempotency.ts';
import type { Actor } from '../src/services/identity/actor.ts';
import type { AttemptResult } from '../src/webhooks/send.ts';
import type { Action, Submission } from './plan.ts';
import { networkDelay, type Services, type SimulatedServer } from './server.ts';
import { record } from './trace.ts';
import { randomBetween, sleep, tasks } from './virtual-time.ts';

/** A submission as its sender knows it. */
export interface SentSubmission extends Submission {
  id: number;
  /** The answer that the user got: the id of the job, or the code of the error. Null if no answer came. */
  answer: { jobId: string } | { error: string } | null;
  isCancelRequested: boolean;
}

/** Requests that the users sent, and responses, events and webhooks that they received. */
export interface ClientLog {
  submissions: SentSubmission[];
  /** By user: the numbers of the events, in the order of their arrival. */
  events: Map<string, { id: number; json: string }[]>;
  /** By user: the secret of the webhook. */
  webhookSecrets: Map<string, string>;
  /** By message id: how often it was received with a right signature, and answered with success. */
  received: Map<string, number>;
  wrongSignatures: string[];
  /** Administrative commands that were answered with success, by the reason that they gave. */
  commands: Map<string, Action>;
}

export interface Clients {
  log: ClientLog;
  /** Carries out an action to its end. */
  perform(action: Action): Promise<void>;
  /** The endpoint of all webhooks. */
  receiveWebhook(url: string, headers: Record<string, string>, body: string): Promise<AttemptResult>;
  /** Breaks all open connections. */
  dropConnections(): void;
  setEndpointDown(isDown: boolean): void;
}

const requestTimeoutMs = 90_000;
const retryMs = 5000;
/** The events that webhooks are registered for. */
export const webhookEvents = ['job.accepted', 'job.ended'] as const;
const main = { hpc: 'sys', project: 'main' };

export const titleOf = (id: number) => `job ${id}`;
const reasonOf = ({ id, kind }: Action) => `${kind} ${id}`;

/** `pickServer` returns a server that takes requests, or undefined if none does. */
export function createClients(
  pickServer: () => SimulatedServer | undefined,
  zips: Record<Submission['zip'], Buffer>,
): Clients {
  const log: ClientLog = {
    submissions: [],
    events: new Map(),
    webhookSecrets: new Map(),
    received: new Map(),
    wrongSignatures: [],
    commands: new Map(),
  };
  let dropped = Promise.withResolvers<void>();
  let isEndpointDown = false;

  async function connect(): Promise<SimulatedServer> {
    for (;;) {
      await networkDelay();
      const server = pickServer();
      if (server !== undefined) return server;
      await sleep(500);
    }
  }

  /** One request. Throws `ConnectionLost` if no answer comes: the server may have done what was asked, or may still do it. */
  async function request<T>(work: (services: Services) => Promise<T>): Promise<T> {
    const server = await connect();
    const served = tasks.run({ process: server, isRequest: true }, () => work(server.services));
    served.catch(() => undefined);
    const lost = Promise.race([server.killed, dropped.promise, sleep(requestTimeoutMs)]).then(() => {
      throw new ConnectionLost();
    });
    const result = await Promise.race([served, lost]).catch(async (error) => {
      await networkDelay();
      throw error;
    });
    await networkDelay();
    return result;
  }

  /** Repeats a request under its key until it is answered for good. */
  async function requestUntilAnswered<T>(work: (services: Services) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await request(work);
      } catch (error) {
        if (error instanceof ConnectionLost || isTransient(error)) await sleep(retryMs);
        else throw error;
      }
    }
  }

  async function submit(action: Action & Submission): Promise<void> {
    const known: SentSubmission = { ...action, answer: null, isCancelRequested: false };
    log.submissions.push(known);
    const send = action.hasKey ? requestUntilAnswered : request;
    try {
      const json = await send(({ jobs }) => jobs.submit(toSubmission(action, zips[action.zip])));
      known.answer = { jobId: JSON.parse(json).job_id };
    } catch (error) {
      if (error instanceof ConnectionLost) return record(`user ${action.user} got no answer for ${titleOf(action.id)}`);
      known.answer = { error: toCode(error) };
    }
    record(`user ${action.user} got ${JSON.stringify(known.answer)} for ${titleOf(action.id)}`);
    if (!('jobId' in known.answer)) return;
    const { jobId } = known.answer;
    const scope = { hpc: 'sys', project: action.project };
    const jobAction = { actor: toActor(action.user), owner: action.user, scope, jobId };
    if (action.cancelAfterMs !== null) {
      await sleep(action.cancelAfterMs);
      known.isCancelRequested = true;
      record(`user ${action.user} cancels ${jobId}`);
      await requestUntilAnswered(({ jobs }) => jobs.cancel(jobAction, toKey(action, 'cancel')));
    }
    if (action.deletesFiles) await deleteWhenEnded(jobAction);
  }

  async function deleteWhenEnded(jobAction: Parameters<Services['jobs']['delete']>[0]): Promise<void> {
    for (;;) {
      try {
        await requestUntilAnswered(({ jobs }) => jobs.delete(jobAction));
        return;
      } catch (error) {
        if (toCode(error) !== 'job_not_finished') throw error;
        await sleep(10_000);
      }
    }
  }

  async function followEvents(user: string): Promise<void> {
    const seen: { id: number; json: string }[] = [];
    log.events.set(user, seen);
    for (;;) {
      const server = await connect();
      const closing = new AbortController();
      const position = seen.at(-1)?.id ?? 'oldest';
      const reading = tasks.run({ process: server, isRequest: true }, async () => {
        const stream = await server.services.events.open(user, position, async () => undefined);
        for await (const { id, json } of stream.follow(closing.signal))
          if (!closing.signal.aborted) seen.push({ id, json });
      });
      await Promise.race([reading.catch(() => undefined), server.killed, dropped.promise]);
      closing.abort();
      await sleep(randomBetween(100, 3000));
    }
  }

  async function registerWebhook(action: Action & { user: string }): Promise<void> {
    const body = { url: `https://example.org/${action.user}`, events: [...webhookEvents] };
    const { secret } = await requestUntilAnswered(({ webhooks }) => webhooks.create(action.user, body, toKey(action)));
    log.webhookSecrets.set(action.user, secret);
  }

  /** Runs an administrative command. A conflict is an answer too. */
  async function command(action: Action, work: (services: Services) => Promise<unknown>): Promise<void> {
    try {
      await requestUntilAnswered(work);
      log.commands.set(reasonOf(action), action);
      record(`administrator: ${reasonOf(action)}`);
    } catch (error) {
      record(`administrator: ${reasonOf(action)} was refused: ${toCode(error)}`);
    }
  }

  async function administrate(action: Action): Promise<void> {
    const reason = reasonOf(action);
    const toCommand = <Body>(body: Body) => ({
      actor: administrator,
      key: reason,
      target: action.kind,
      body: { ...body, reason },
    });
    switch (action.kind) {
      case 'grant': {
        const body = { kind: 'top_up', resource: 'time', amount: action.amount, source: 'new' } as const;
        return await command(action, ({ admin }) => admin.changeCap(main, action.user, toCommand(body)));
      }
      case 'transfer': {
        const { from, to, amount } = action;
        return await command(action, ({ admin }) =>
          admin.transfer(main, toCommand({ from, to, resource: 'time' as const, amount })),
        );
      }
      case 'refund': {
        const known = log.submissions.find(({ answer, project }) => answer && 'jobId' in answer && project === 'main');
        if (!known?.answer || !('jobId' in known.answer)) return;
        const body = { job_id: known.answer.jobId, amount: action.amount };
        return await command(action, ({ admin }) => admin.refund(main, toCommand(body)));
      }
      case 'close project':
        return await command(action, ({ admin }) => admin.closeProject({ hpc: 'sys', project: 'side' }, toCommand({})));
      case 'open period': {
        const ends =
          action.endsAfterMs === null ? {} : { ends: new Date(Date.now() + action.endsAfterMs).toISOString() };
        const body = { member_seconds: action.memberSeconds, reserve_seconds: 0, ...ends };
        return await command(action, ({ admin }) => admin.openPeriod(main, toCommand(body)));
      }
      case 'disable user': {
        const change = { actor: administrator, userId: action.user, reason };
        await command(action, ({ users }) => users.disable({ ...change, request: toKey(action) }));
        await sleep(action.forMs);
        await requestUntilAnswered(({ users }) => users.enable({ ...change, request: toKey(action, 'enable') }));
      }
    }
  }

  return {
    log,
    async perform(action) {
      await sleep(action.at);
      if (action.kind === 'submit') return await submit(action);
      if (action.kind === 'follow events') return await followEvents(action.user);
      if (action.kind === 'register webhook') return await registerWebhook(action);
      await administrate(action);
    },
    async receiveWebhook(url, headers, body) {
      const failure = { ok: false, result: '5xx', status: 503, error: 'unavailable', detail: '' } as const;
      if (isEndpointDown) return failure;
      const user = new URL(url).pathname.slice(1);
      const id = headers['webhook-id'] ?? '';
      const secret = log.webhookSecrets.get(user);
      // The user has not received the answer with the secret yet, so cannot check the signature.
      if (secret === undefined) return failure;
      if (!hasSignature(headers, body, secret)) log.wrongSignatures.push(id);
      log.received.set(`${user} ${id}`, (log.received.get(`${user} ${id}`) ?? 0) + 1);
      return { ok: true, result: '2xx', status: 200, error: null, detail: null };
    },
    dropConnections() {
      dropped.resolve();
      dropped = Promise.withResolvers();
    },
    setEndpointDown(isDown) {
      isEndpointDown = isDown;
    },
  };
}

/** Computed here, not by the code under test. */
function hasSignature(headers: Record<string, string>, body: string, secret: string): boolean {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return headers['webhook-signature'] === `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
}

class ConnectionLost extends Error {}

const isTransient = (error: unknown) =>
  !(error instanceof BursarError) || error.transient || error.code === 'idempotency_key_in_use';
const toCode = (error: unknown) =>
  error instanceof BursarError ? error.code : `internal: ${(error as Error).message}`;

const toActor = (userId: string): Actor => ({
  userId,
  role: 'user',
  address: null,
  tokenId: null,
  sessionId: null,
  requestId: null,
});
const administrator: Actor = { ...toActor('9'), role: 'administrator' };

function toKey(action: Action & { user?: string }, suffix = ''): IdempotentRequest {
  const userId = action.kind === 'disable user' ? administrator.userId : (action.user ?? administrator.userId);
  return { userId, key: `${reasonOf(action)} ${suffix}`, content: action.kind };
}

function toSubmission(action: Action & Submission, zip: Buffer): Parameters<Services['jobs']['submit']>[0] {
  const payload = {
    title: titleOf(action.id),
    node_number: 1,
    core_number: action.cores,
    runtime: action.runtimeHours,
    command: `run ${action.id}`,
  };
  return {
    actor: toActor(action.user),
    scope: { hpc: 'sys', project: action.project },
    headers: { contentDisposition: 'attachment; filename=job.zip', payloads: [JSON.stringify(payload)] },
    body: upload(zip, action.uploadMs),
    declaredBytes: zip.length,
    idempotency: action.hasKey ? { key: reasonOf(action), target: `POST /jobs/sys/${action.project}/` } : null,
    traceParent: null,
  };
}

/** Sends the zip in two parts, with a pause between them. */
async function* upload(zip: Buffer, pauseMs: number): AsyncGenerator<Buffer> {
  if (zip.length > 0) yield zip.subarray(0, zip.length / 2);
  if (pauseMs > 0) await sleep(pauseMs);
  if (zip.length > 0) yield zip.subarray(zip.length / 2);
}
