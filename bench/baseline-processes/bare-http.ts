// A bare node:http server that sends the same response to every request.
import { spawn } from 'node:child_process';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A fixed response, with its body in base64; or a file, read by `cat`. */
export type CannedResponse = { status: number; headers: Record<string, string>; body: string } | { cat: string };

process.once('message', (canned: CannedResponse) => {
  const server = createServer('cat' in canned ? sendFile(canned.cat) : sendFixed(canned));
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
  process.once('disconnect', () => process.exit());
});

function sendFixed({ status, headers, body }: Exclude<CannedResponse, { cat: string }>): RequestListener {
  const bytes = Buffer.from(body, 'base64');
  return (_request, response) => {
    response.writeHead(status, headers);
    response.end(bytes);
  };
}

function sendFile(file: string): RequestListener {
  return (_request, response) => {
    spawn('cat', [file], { stdio: ['ignore', 'pipe', 'inherit'] }).stdout.pipe(response);
  };
}
