import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';

/** Downloads a response and discards it; returns its size in bytes. */
export async function download(url: string, headers: Record<string, string>): Promise<number> {
  const [response] = (await once(get(url, { headers, agent: false }), 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`${url} responded with ${response.statusCode}`);
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(response, 'end');
  return bytes;
}
