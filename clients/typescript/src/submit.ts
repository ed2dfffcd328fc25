import { type Api, randomKey } from './api.ts';
import type { BatchPayload, Job, Payload, Quote } from './generated/types.ts';
import type { RequestBody } from './http.ts';
import { xhrFetch } from './xhr.ts';

/** Bytes that can be sent several times, each time the same. */
export interface UploadSource {
  /** Name of the zip, for the server. Default: `job.zip`. */
  name?: string;
  /** The sum of all counts that `open` reports. */
  totalBytes?: number;
  /** Returns the zip for one attempt. If it is a stream, it reports the progress itself. */
  open(onBytes: (count: number) => void): RequestBody;
}

/** The files of a job: a zip, or a function that returns a new stream of the same zip for each attempt. */
export type JobInput = Blob | Uint8Array<ArrayBuffer> | (() => ReadableStream<Uint8Array>) | UploadSource;

export interface UploadProgress {
  /** For a folder, both count the bytes of its files before they are packed. */
  sentBytes: number;
  totalBytes: number | undefined;
  /** 1 for the first one. After a cut connection the upload starts again. */
  attempt: number;
}

export interface JobRequest {
  hpc: string;
  /** Default: the default project of the system. */
  project?: string | undefined;
  /** For batch systems. */
  command?: string | undefined;
  /** For tool systems. */
  tool?: string | undefined;
  nodes?: number | undefined;
  coresPerNode?: number | undefined;
  /** Hours of wall-clock time. */
  runtime?: number | undefined;
  title?: string | undefined;
  tags?: string[] | undefined;
  /** Parameters of the tool. */
  params?: Record<string, string | number | boolean | string[]> | undefined;
  signal?: AbortSignal | undefined;
}

export interface SubmitOptions<Input = JobInput> extends JobRequest {
  input?: Input | undefined;
  /** A submission with the key of an earlier one returns the job of that one. Default: a new random key. */
  idempotencyKey?: string | undefined;
  /** Number of repetitions. Default: that of the client. */
  retries?: number | undefined;
  onProgress?: ((progress: UploadProgress) => void) | undefined;
}

/** Submits a job once, however often the request must be repeated. */
export async function submitJob(api: Api, options: SubmitOptions): Promise<Job> {
  const { hpc, project, input, idempotencyKey = randomKey(), retries, onProgress, signal } = options;
  const source = input === undefined ? undefined : toSource(input);
  const name = (source?.name ?? 'job.zip').replace(/[^\w.-]/g, '_');
  const request = {
    headers: {
      'Content-Disposition': `attachment; filename=${name}`,
      Payload: toPayload(options),
      'Idempotency-Key': idempotencyKey,
    },
    signal,
    retries,
    ...(source === undefined ? {} : uploadOptions(source, onProgress)),
  };
  if (project === undefined) return await api.submitJob({ path: { hpc }, ...request });
  return await api.submitJobToProject({ path: { hpc, project_name: project }, ...request });
}

export async function getQuote(api: Api, request: JobRequest): Promise<Quote> {
  const { hpc, project, signal } = request;
  const options = { headers: { Payload: toPayload(request) }, signal };
  if (project === undefined) return await api.getQuote({ path: { hpc }, ...options });
  return await api.getQuoteInProject({ path: { hpc, project_name: project }, ...options });
}

function toPayload({ command, tool, nodes, coresPerNode, runtime, title, tags, params }: JobRequest): Payload {
  const payload = { command, tool, node_number: nodes, core_number: coresPerNode, runtime, title, tags, ...params };
  // JSON drops what is undefined. The server checks which of command and tool the system takes.
  return payload as unknown as BatchPayload;
}

function toSource(input: JobInput): UploadSource {
  if ('open' in input) return input;
  if (typeof input === 'function') return { open: (onBytes) => watchStream(input(), onBytes).stream };
  const bytes = input;
  const totalBytes = bytes instanceof Blob ? bytes.size : bytes.byteLength;
  return { totalBytes, open: () => bytes, ...('name' in bytes ? { name: String(bytes.name) } : {}) };
}

function uploadOptions(source: UploadSource, onProgress: SubmitOptions['onProgress']) {
  const { totalBytes } = source;
  let attempt = 0;
  let sentBytes = 0;
  let current: WatchedStream | undefined;
  const report = (bytes: number) => {
    sentBytes = bytes;
    onProgress?.({ sentBytes, totalBytes, attempt });
  };
  const body = (): RequestBody => {
    const number = ++attempt;
    sentBytes = 0;
    // A stream of an earlier attempt may be read for another moment.
    const onBytes = (count: number) => number === attempt && report(sentBytes + count);
    const content = source.open(onBytes);
    if (content instanceof ReadableStream) current = watchStream(content, () => undefined);
    // Only XMLHttpRequest reports the progress of an upload in browsers, which cannot send streams over HTTP/1.1.
    else if (onProgress && !xhrFetch) current = watchStream(toStream(content), onBytes);
    return current?.stream ?? content;
  };
  const send = onProgress && xhrFetch ? xhrFetch(report) : fetch;
  return {
    body,
    fetch: (url: string, init: RequestInit) =>
      send(url, init).catch((error) => {
        current?.stop();
        // A file that cannot be read is no failure of the network, and is not tried again.
        throw current?.failure ? current.failure.error : error;
      }),
  };
}

function toStream(content: RequestBody): ReadableStream<Uint8Array> {
  return (content instanceof Blob ? content : new Blob([content as Uint8Array<ArrayBuffer>])).stream();
}

interface WatchedStream {
  stream: ReadableStream<Uint8Array>;
  /** Set if the source has failed. */
  failure?: { error: unknown };
  /** Closes the source. Node goes on reading for a while when the connection is gone. */
  stop(): void;
}

/** Passes a stream on, and reports the size of each chunk when the connection takes it. */
function watchStream(source: ReadableStream<Uint8Array>, onBytes: (count: number) => void): WatchedStream {
  const reader = source.getReader();
  const close = () => reader.cancel().catch(() => undefined);
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const { done, value } = await reader.read().catch((error) => {
      watched.failure = { error };
      throw error;
    });
    if (done) return controller.close();
    controller.enqueue(value);
    onBytes(value.byteLength);
  };
  const stream = new ReadableStream<Uint8Array>({ pull, cancel: close }, { highWaterMark: 0 });
  const watched: WatchedStream = { stream, stop: () => void close() };
  return watched;
}
