// A bare node:http that sends one answer, whatever it is asked.
import { spawn } from 'node:child_process';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A fixed answer, with its body in base64; or what `cat` reads from a file. */
export type CannedResponse = { status: number; headers: Record<string, string>; body: string } | { cat: string };

process.once('message', (answer: CannedResponse) => {
  const server = createServer('cat' in answer ? sendFile(answer.cat) : sendFixed(answer));
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
