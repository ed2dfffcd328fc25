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

/** A request with its answer, for whoever looks over a caller's shoulder. */
export interface Exchange {
  method: string;
  path: string;
  response: ApiResponse;
}

/** A caller with a token, speaking real HTTP. */
export interface Caller {
  get<T>(path: string): Promise<ApiResponse<T>>;
  send(method: string, path: string, headers?: Record<string, string>, body?: Body): Promise<ApiResponse>;
  submit(path: string, payload: Record<string, unknown>, zip?: Uint8Array): Promise<ApiResponse<Job>>;
  /** The job once its stage is final; gives up after five minutes, for it may have to queue. */
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
    const response = await fetch(url + path, {
      method,
      headers: { ...auth, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    const isJson = text !== '' && /json/.test(response.headers.get('content-type') ?? '');
    const json = isJson ? JSON.parse(text) : undefined;
    const answer = { status: response.status, headers: response.headers, text, body: json };
    observe({ method, path, response: answer });
    return answer;
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
      const look = async () => {
        const { body } = await caller.get<Job>(path);
        return body.terminal_stage ? body : undefined;
      };
      return await until(`the end of ${job.job_id}`, look, 300);
    },
    quota: async (hpc, project) => (await caller.get<Quota>(`/quotas/${hpc}/${project}/`)).body,
  };
  return caller;
}
