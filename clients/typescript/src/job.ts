import type { Api } from './api.ts';
import { decodeText, readBytes, readResumable } from './byte-stream.ts';
import { type Download, type DownloadOptions, openDownload, toDownload } from './download.ts';
import type { JobEvents } from './events.ts';
import type { Job, File as JobFile, Timeline } from './generated/types.ts';
import type { Http } from './http.ts';
import { followEvents } from './server-sent-events.ts';

/** Names a job: a Job object, or the parts of its path. */
export type JobReference = Job | { hpc: string; project_name: string; job_id: string };

export interface WaitOptions {
  signal?: AbortSignal | undefined;
  /** Called with the current job at first, and after every change. */
  onChange?: ((job: Job) => void) | undefined;
}

export interface LogOptions {
  stream?: 'stdout' | 'stderr' | undefined;
  /** Offset of the first byte. Default: 0. */
  offset?: number | undefined;
  /** Goes on until the job has ended. */
  follow?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

interface Signal {
  signal?: AbortSignal | undefined;
}

/** The parts of a client that a job uses. */
export interface JobConnection {
  http: Http;
  api: Api;
  jobEvents: JobEvents;
}

/** One job. Its methods send requests; `data` is the job as it was last received. */
export class JobHandle {
  readonly job_id: string;
  readonly hpc: string;
  readonly project_name: string;
  #data: Job | undefined;
  readonly #connection: JobConnection;

  constructor(connection: JobConnection, reference: JobReference) {
    this.#connection = connection;
    this.job_id = reference.job_id;
    this.project_name = reference.project_name;
    this.hpc = 'hpc' in reference ? reference.hpc : reference.project_hpc.toLowerCase();
    this.#data = 'id' in reference ? reference : undefined;
  }

  /** Throws if the job was named by its path and never read: call `refresh` first. */
  get data(): Job {
    if (!this.#data) throw new Error(`The job ${this.job_id} has not been read yet. Call refresh() first.`);
    return this.#data;
  }

  async refresh({ signal }: Signal = {}): Promise<Job> {
    this.#data = await this.#connection.api.getJob({ path: this.#path, signal });
    return this.#data;
  }

  /** Resolves with the job when it has ended, whatever its outcome. All waits of a client share one event stream. */
  async wait({ signal, onChange }: WaitOptions = {}): Promise<Job> {
    let wake = () => {};
    let failure: { error: unknown } | undefined;
    const changes: (Job | undefined)[] = [];
    const unsubscribe = await this.#connection.jobEvents.subscribe({
      jobId: this.job_id,
      onChange: (job) => {
        changes.push(job);
        wake();
      },
      onError: (error) => {
        failure = { error };
        wake();
      },
    });
    const onAbort = () => wake();
    signal?.addEventListener('abort', onAbort);
    try {
      let reported = '';
      for (let job = await this.refresh({ signal }); ; ) {
        if (JSON.stringify(job) !== reported) onChange?.(job);
        reported = JSON.stringify(job);
        if (job.terminal_stage) return job;
        while (changes.length === 0) {
          signal?.throwIfAborted();
          if (failure) throw failure.error;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
        const changed = changes.shift();
        // An event may be older than what was read of the job, unless the job has ended in it: an end is final.
        job = changed?.terminal_stage ? changed : await this.refresh({ signal });
        this.#data = job;
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
      unsubscribe();
    }
  }

  /** Yields the output of the job: complete lines while it is followed. Goes on after an interruption without a gap. */
  async *log({ stream = 'stdout', offset = 0, follow = false, signal }: LogOptions = {}): AsyncGenerator<string> {
    const { http } = this.#connection;
    const path = `${this.#url('jobs')}log/?stream=${stream}`;
    if (!follow) {
      const open = async (position: number) => {
        const request = { method: 'GET', path: `${path}&offset=${position}`, signal, isRepeatable: true };
        return readBytes(await http.send(request, async (response) => response), signal);
      };
      const reopen = (received: number) => open(offset + received);
      yield* decodeText(readResumable(await open(offset), reopen, http.retries));
      return;
    }
    for await (const { type, data } of followEvents(http, {
      path: `${path}&follow=1`,
      lastEventId: String(offset),
      signal,
    })) {
      if (type === 'end') return;
      yield (JSON.parse(data) as { text: string }).text;
    }
  }

  /** Lists the files in the working directory of the job. */
  files({ signal }: Signal = {}): Promise<JobFile[]> {
    return this.#connection.api.listJobFiles({ path: this.#path, signal });
  }

  /** Opens a file of the job, from the list of files. */
  download(path: string, options: DownloadOptions = {}): Promise<Download> {
    const encoded = path.split('/').map(encodeURIComponent).join('/');
    return openDownload(this.#connection.http, this.#url('files') + encoded, options);
  }

  /** Opens all files of the job as one zip. It cannot be resumed, because it is packed anew for every request. */
  async archive({ signal }: Signal = {}): Promise<Download> {
    const options = { path: this.#path, query: { archive: 'zip' }, signal, as: 'response' } as const;
    return toDownload(readBytes(await this.#connection.api.listJobFiles(options), signal));
  }

  /** Asks the system to cancel the job. `wait` resolves at its end. */
  async cancel({ signal }: Signal = {}): Promise<Job> {
    this.#data = await this.#connection.api.cancelJob({ path: this.#path, signal });
    return this.#data;
  }

  /** Deletes the files of a job that has ended. */
  async delete({ signal }: Signal = {}): Promise<Job> {
    this.#data = await this.#connection.api.deleteJob({ path: this.#path, signal });
    return this.#data;
  }

  timeline({ signal }: Signal = {}): Promise<Timeline> {
    return this.#connection.api.getJobTimeline({ path: this.#path, signal });
  }

  get #path() {
    return { hpc: this.hpc, project_name: this.project_name, job_id: this.job_id };
  }

  #url(resource: 'jobs' | 'files'): string {
    return `/${[resource, this.hpc, this.project_name, this.job_id].map(encodeURIComponent).join('/')}/`;
  }
}
