import { type Api, createApi } from './api.ts';
import { readJson } from './errors.ts';
import { createJobEvents, type EventOptions, events } from './events.ts';
import type { Event, Job, ListJobsData, Quota, Quote, Statement } from './generated/types.ts';
import { type ClientOptions, createHttp, type Http } from './http.ts';
import { type JobConnection, JobHandle, type JobReference } from './job.ts';
import { getQuote, type JobRequest, type SubmitOptions, submitJob } from './submit.ts';

export type JobFilter = Omit<NonNullable<ListJobsData['query']>, 'cursor'> & {
  hpc?: string | undefined;
  /** Needs `hpc`. */
  project?: string | undefined;
  signal?: AbortSignal | undefined;
};

export interface QuotaFilter {
  hpc?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface StatementOptions {
  hpc: string;
  project: string;
  from?: string | undefined;
  to?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** A client of one server, for one user. */
export class Bursar {
  /** Every operation of the server, by its operationId in `/openapi.json`. */
  readonly api: Api;
  readonly #http: Http;
  readonly #connection: JobConnection;

  constructor(options: ClientOptions = {}) {
    this.#http = createHttp(options);
    this.api = createApi(this.#http);
    this.#connection = { http: this.#http, api: this.api, jobEvents: createJobEvents(this.#http, this.api) };
  }

  /** Submits a job. It has an Idempotency-Key, so that repetitions after lost connections give one job. */
  async submit(options: SubmitOptions): Promise<JobHandle> {
    return this.job(await submitJob(this.api, options));
  }

  /** Calculates what a job would cost, and whether it would be accepted. */
  quote(request: JobRequest): Promise<Quote> {
    return getQuote(this.api, request);
  }

  job(reference: JobReference): JobHandle {
    return new JobHandle(this.#connection, reference);
  }

  /** Lists your jobs by ascending id, page by page. */
  async *jobs({ hpc, project, signal, limit = 500, ...filter }: JobFilter = {}): AsyncGenerator<Job> {
    const segments = ['jobs', hpc, hpc === undefined ? undefined : project].filter((segment) => segment !== undefined);
    const search = new URLSearchParams({ limit: String(limit) });
    for (const [name, value] of Object.entries(filter))
      for (const item of [value].flat()) if (item !== undefined) search.append(name, String(item));
    let path: string | undefined = `/${segments.map(encodeURIComponent).join('/')}/?${search}`;
    while (path !== undefined) {
      const request = { method: 'GET', path, signal, isRepeatable: true };
      const page: { jobs: Job[]; next: string | undefined } = await this.#http.send(request, async (response) => ({
        jobs: (await readJson(response)) as Job[],
        // Only a path: an address of another host would get the token.
        next: /<(\/(?!\/)[^>]*)>; *rel="next"/.exec(response.headers.get('link') ?? '')?.[1],
      }));
      yield* page.jobs;
      path = page.next;
    }
  }

  /** Yields events as they happen. Resumes by itself, and never repeats or misses one. */
  events(options: EventOptions = {}): AsyncGenerator<Event> {
    return events(this.#http, this.api, options);
  }

  quotas({ hpc, signal }: QuotaFilter = {}): Promise<Quota[]> {
    return hpc === undefined ? this.api.listQuotas({ signal }) : this.api.listQuotasOnSystem({ path: { hpc }, signal });
  }

  statement({ hpc, project, from, to, signal }: StatementOptions): Promise<Statement> {
    const query = { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
    return this.api.getStatement({ path: { hpc, project_name: project }, query, signal });
  }
}
