import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { text as readText } from 'node:stream/consumers';
import { until } from './until.ts';

type Body = NonNullable<RequestInit['body']>;

export interface Job {
  id: number;
  job_id: string;
  owner: string;
  project: number;
  project_hpc: string;
  project_name: string;
  title: string;
  runtime: number;
  stage: string;
  terminal_stage: boolean;
  failed: boolean;
  init_date: string;
  end_date: string | null;
}

export interface Quota {
  id: number;
  project: number;
  project_hpc: string;
  project_name: string;
  space_left: number;
  time_left: number;
  user: string;
}

export interface ApiResponse<T = unknown> {
  status: number;
  headers: Headers;
  text: string;
  body: T;
}

/** A request and its response, for observers of a caller. */
export interface Exchange {
  method: string;
  path: string;
  response: ApiResponse;
}

/** An HTTP client with the token of one user. */
export interface Caller {
  get<T>(path: string): Promise<ApiResponse<T>>;
  send(method: string, path: string, headers?: Record<string, string>, body?: Body): Promise<ApiResponse>;
  submit(path: string, payload: Record<string, unknown>, zip?: Uint8Array): Promise<ApiResponse<Job>>;
  /** Polls until the stage of the job is terminal. The timeout is five minutes, because jobs may have to queue. */
  waitUntilFinished(job: Job): Promise<Job>;
  quota(hpc: string, project: string): Promise<Quota>;
}

export function createCaller(
  url: string,
  token: string | null,
  observe: (exchange: Exchange) => void = () => undefined,
): Caller {
  const auth: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };

  async function send(method: string, path: string, headers: Record<string, string> = {}, body?: Body) {
    const message = await exchange(url + path, method, { ...auth, ...headers }, body);
    const text = await readText(message);
    const received = toHeaders(message);
    const isJson = text !== '' && /\bjson\b/.test(received.get('content-type') ?? '');
    const json = isJson ? JSON.parse(text) : undefined;
    const response = { status: message.statusCode ?? 0, headers: received, text, body: json };
    observe({ method, path, response });
    return response;
  }

  const caller: Caller = {
    send,
    get: async <T>(path: string) => (await send('GET', path)) as ApiResponse<T>,
    submit: async (path, payload, zip) =>
      (await send(
        'POST',
        path,
        { 'content-disposition': 'attachment; filename=job.zip', payload: JSON.stringify(payload) },
        zip as Body | undefined,
      )) as ApiResponse<Job>,
    waitUntilFinished: async (job) => {
      const path = `/jobs/${job.project_hpc.toLowerCase()}/${job.project_name}/${job.job_id}/`;
      const poll = async () => {
        const { body } = await caller.get<Job>(path);
        return body.terminal_stage ? body : undefined;
      };
      return await until(`the end of ${job.job_id}`, poll, 300);
    },
    quota: async (hpc, project) => (await caller.get<Quota>(`/quotas/${hpc}/${project}/`)).body,
  };
  return caller;
}

/** `fetch` takes several times the CPU time, and this sends most requests of all tests. */
async function exchange(url: string, method: string, headers: Record<string, string>, body?: Body) {
  const encoded = body === undefined ? undefined : new Response(body);
  const content = encoded && Buffer.from(await encoded.arrayBuffer());
  const type = encoded?.headers.get('content-type');
  const described = { ...(type && { 'content-type': type }), ...(content && { 'content-length': content.length }) };
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  const sent = request(url, { method, headers: { ...described, ...headers } });
  sent.end(content);
  return await new Promise<IncomingMessage>((resolve, reject) => sent.once('response', resolve).once('error', reject));
}

function toHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index < rawHeaders.length; index += 2)
    headers.append(rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '');
  return headers;
}
