const timeoutMs = 5000;
const maxBytes = 1_000_000;

export class ResponseError extends Error {
  readonly status: number;

  constructor(url: string, status: number) {
    super(`${url} responded with status ${status}`);
    this.status = status;
  }
}

/** Requests a JSON object of an OpenID provider. Throws if there is none within 5 s, or if it is larger than 1 MB. */
export async function fetchJson(url: string, init: RequestInit = {}): Promise<Record<string, unknown>> {
  const headers = { accept: 'application/json', ...init.headers };
  // A redirect could lead to a server that the operator has not named.
  const options = { ...init, headers, redirect: 'error', signal: AbortSignal.timeout(timeoutMs) } as const;
  const response = await fetch(url, options);
  if (!response.ok) {
    await response.body?.cancel();
    throw new ResponseError(url, response.status);
  }
  const value: unknown = JSON.parse(await readText(response, url));
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${url} did not respond with a JSON object`);
  return value as Record<string, unknown>;
}

async function readText(response: Response, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxBytes) throw new Error(`${url} responded with more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
