import type { CustomFetchOptions } from 'openid-client';

const maxBytes = 1_000_000;

/** `fetch` without redirects, which could lead to a server that the operator has not named, and without long responses. */
export async function limitedFetch(url: string, options: Partial<CustomFetchOptions>): Promise<Response> {
  const response = await fetch(url, { ...options, redirect: 'manual' } as RequestInit);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxBytes) throw new Error(`${url} responded with more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  const { status, headers } = response;
  return new Response(size === 0 ? null : Buffer.concat(chunks), { status, headers });
}
