import { createHmac } from 'node:crypto';
import { toDeliveryResult } from '../src/domain/webhook.ts';
import { followEvents, resolvePosition } from '../src/services/events/read-events.ts';
import { createWebhook } from '../src/services/events/webhooks.ts';
import { requireEnabledUser } from '../src/services/identity/access.ts';
import { cancelJob } from '../src/services/jobs/cancel-job.ts';
import { deleteJob } from '../src/services/jobs/delete-job.ts';
import type { JobAction } from '../src/services/jobs/find-job.ts';
import { submitJob } from '../src/services/jobs/submit-job.ts';
import type { ServiceDeps } from '../src/services/service-deps.ts';
import type { AttemptResult } from '../src/webhooks/send.ts';
import { createAdministrator } from './administrator.ts';
import { type Action, administrator as administratorId, minJobs, type Submission } from './plan.ts';
import { ConnectionLost, isTransient, titleOf, toActor, toCode, toKey, toSubmission } from './requests.ts';
import type { SimulatedServer } from './server.ts';
import { record } from './trace.ts';
import { databaseTime, randomBetween, sleep, tasks } from './virtual-time.ts';

/** A submission as its sender knows it. */
export interface SentSubmission extends Submission {
  id: number;
  /** The answer that the user got: the id of the job, or the code of the error. Null if no answer came. */
  answer: { jobId: string } | { error: string } | null;
  /** In the time of the database; null if it was not requested. */
  cancelRequestedAt: number | null;
}

/** Requests that the users sent, and responses, events and webhooks that they received. */
export interface ClientLog {
  submissions: SentSubmission[];
  /** By user: the numbers of the events and their JSON, in the order of their arrival. */
  events: Map<string, { id: number; json: string }[]>;
  /** By user: the secret of the webhook. */
  webhookSecrets: Map<string, string>;
  /** By user and message id: the body that was answered with success. */
  received: Map<string, string>;
  wrongSignatures: string[];
  /** Administrative commands that were answered with success, by the reason that they gave. */
  commands: Map<string, Command>;
  refusedCommands: Set<string>;
  /** From before the request to disable until after the answer to enable, in the time of the database. */
  disablings: { user: string; from: number; to: number }[];
  /** The ids of the jobs whose owners asked for their deletion. */
  deletions: Set<string>;
  /** Broken rules that a user noticed. */
  problems: string[];
}

export type Command = Action & {
  /** By a refund. */
  refundedJobId?: string;
};

export interface Clients {
  log: ClientLog;
  /** Carries out an action to its end. */
  perform(action: Action): Promise<void>;
  /** The endpoint of all webhooks. */
  receiveWebhook(url: string, headers: Record<string, string>, body: string): Promise<AttemptResult>;
  /** Breaks all open connections. */
  dropConnections(): void;
  /** From now on the endpoint answers with this status; null for success. */
  setEndpointFailure(status: number | null): void;
}

const requestTimeoutMs = 90_000;
const retryMs = 5000;
const networkDelay = () => sleep(randomBetween(1, 50));
/** The events that webhooks are registered for. */
export const webhookEvents = ['job.accepted', 'job.ended'] as const;

/** `pickServer` returns a server that takes requests, or undefined if none does. */
export function createClients(
  pickServer: () => SimulatedServer | undefined,
  zipOf: (submission: Submission & { id: number }) => Buffer,
): Clients {
  const log: ClientLog = {
    submissions: [],
    events: new Map(),
    webhookSecrets: new Map(),
    received: new Map(),
    wrongSignatures: [],
    commands: new Map(),
    refusedCommands: new Set(),
    disablings: [],
    deletions: new Set(),
    problems: [],
  };
  /** The numbers of the submissions that wait for an answer. */
  const waiting = new Set<number>();
  const administrator = createAdministrator(log, requestUntilAnswered);
  let dropped = Promise.withResolvers<void>();
  let endpointFailure: number | null = null;

  async function connect(): Promise<SimulatedServer> {
    for (;;) {
      await networkDelay();
      const server = pickServer();
      if (server !== undefined) return server;
      await sleep(500);
    }
  }

  /** One request. Throws `ConnectionLost` if no answer comes. */
  async function request<T>(user: string, work: (services: ServiceDeps) => Promise<T>): Promise<T> {
    const server = await connect();
    const served = tasks.run({ process: server, isRequest: true }, async () => {
      if (user !== administratorId) await requireEnabledUser(server.services.db, user);
      return await work(server.services);
    });
    served.catch(() => undefined);
    const disabledBy = administrator.disabledBy(user);
    const lost = Promise.race([server.killed, dropped.promise, sleep(requestTimeoutMs)]).then(() => {
      throw new ConnectionLost();
    });
    const result = await Promise.race([served, lost]).catch(async (error) => {
      await networkDelay();
      throw error;
    });
    if (disabledBy !== null && disabledBy === administrator.disabledBy(user))
      log.problems.push(`user ${user} is disabled and was served`);
    await networkDelay();
    return result;
  }

  /** Repeats a request under its key until it is answered for good. */
  async function requestUntilAnswered<T>(user: string, work: (services: ServiceDeps) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await request(user, work);
      } catch (error) {
        if (error instanceof ConnectionLost || isTransient(error)) await sleep(retryMs);
        else throw error;
      }
    }
  }

  async function submit(action: Action & Submission): Promise<void> {
    const accepted = log.submissions.filter(({ answer }) => answer && 'jobId' in answer);
    if (action.isSpare && accepted.length + waiting.size >= minJobs) return;
    const known: SentSubmission = { ...action, answer: null, cancelRequestedAt: null };
    log.submissions.push(known);
    const send = action.hasKey ? requestUntilAnswered : request;
    waiting.add(action.id);
    try {
      const json = await send(action.user, (services) => submitJob(services, toSubmission(action, zipOf(action))));
      known.answer = { jobId: JSON.parse(json).job_id };
    } catch (error) {
      if (error instanceof ConnectionLost) return record(`user ${action.user} got no answer for ${titleOf(action.id)}`);
      known.answer = { error: toCode(error) };
    } finally {
      waiting.delete(action.id);
    }
    record(`user ${action.user} got ${JSON.stringify(known.answer)} for ${titleOf(action.id)}`);
    if (!('jobId' in known.answer)) return;
    const { jobId } = known.answer;
    const path = { owner: action.user, hpc: 'sys', project: action.project, jobId };
    const jobAction = { ...path, actor: toActor(action.user) };
    if (action.cancelAfterMs !== null) {
      await sleep(action.cancelAfterMs);
      known.cancelRequestedAt = databaseTime();
      record(`user ${action.user} cancels ${jobId}`);
      await requestUntilAnswered(action.user, (services) => cancelJob(services, jobAction, toKey(action, 'cancel')));
    }
    if (action.deletesFiles) await deleteWhenEnded(action.user, jobAction);
  }

  async function deleteWhenEnded(user: string, jobAction: JobAction): Promise<void> {
    log.deletions.add(jobAction.jobId);
    for (;;) {
      try {
        await requestUntilAnswered(user, (services) => deleteJob(services, jobAction));
        return;
      } catch (error) {
        if (toCode(error) !== 'job_not_finished') throw error;
        await sleep(10_000);
      }
    }
  }

  async function readEvents(user: string): Promise<void> {
    const seen: { id: number; json: string }[] = [];
    log.events.set(user, seen);
    for (;;) {
      const server = await connect();
      const closing = new AbortController();
      const position = seen.at(-1)?.id ?? 'oldest';
      const reading = tasks.run({ process: server, isRequest: true }, async () => {
        const { services } = server;
        const checkAccess = () => requireEnabledUser(services.db, user);
        await checkAccess();
        const after = await resolvePosition(services, user, position);
        const reading = { userId: user, after, signal: closing.signal, checkAccess };
        for await (const { id, json } of followEvents(services, reading))
          if (!closing.signal.aborted) {
            seen.push({ id, json });
            if (administrator.disabledBy(user) !== null) log.problems.push(`user ${user} is disabled and gets events`);
          }
      });
      await Promise.race([reading.catch(() => undefined), server.killed, dropped.promise]);
      closing.abort();
      await sleep(randomBetween(100, 3000));
    }
  }

  async function registerWebhook(action: Action & { user: string }): Promise<void> {
    const body = { url: `https://example.org/${action.user}`, events: [...webhookEvents] };
    const { secret } = await requestUntilAnswered(action.user, (services) =>
      createWebhook(services, action.user, body, toKey(action)),
    );
    log.webhookSecrets.set(action.user, secret);
  }

  return {
    log,
    async perform(action) {
      await sleep(action.at);
      if (action.kind === 'submit') return await submit(action);
      if (action.kind === 'follow events') return await readEvents(action.user);
      if (action.kind === 'register webhook') return await registerWebhook(action);
      await administrator.perform(action);
    },
    async receiveWebhook(url, headers, body) {
      const fail = (status: number): AttemptResult => {
        return { ok: false, result: toDeliveryResult(status), status, error: 'failed', detail: '' };
      };
      if (endpointFailure !== null) return fail(endpointFailure);
      const user = new URL(url).pathname.slice(1);
      const id = headers['webhook-id'] ?? '';
      const secret = log.webhookSecrets.get(user);
      // The user has not received the answer with the secret yet, so cannot check the signature.
      if (secret === undefined) return fail(503);
      if (!hasSignature(headers, body, secret)) log.wrongSignatures.push(id);
      log.received.set(`${user} ${id}`, body);
      return { ok: true, result: '2xx', status: 200, error: null, detail: null };
    },
    dropConnections() {
      dropped.resolve();
      dropped = Promise.withResolvers();
    },
    setEndpointFailure(status) {
      endpointFailure = status;
    },
  };
}

/** Computed here, not by the code under test. */
function hasSignature(headers: Record<string, string>, body: string, secret: string): boolean {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return headers['webhook-signature'] === `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
}
