// A bare node:http server that sends fixed responses, or stores bodies.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** A response with its body in base64. */
export interface FixedResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** The same response to every request, or one for each path and one for all other paths; or a file, read by `cat`. */
export type CannedResponse =
  | FixedResponse
  | { paths: Record<string, FixedResponse>; other: FixedResponse }
  | { cat: string }
  /** Stores each request body in a file of this folder, synced, and removes it. */
  | { store: string };

process.once('message', (canned: CannedResponse) => {
  const server = createServer(createListener(canned));
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
  process.once('disconnect', () => process.exit());
});

function createListener(canned: CannedResponse): RequestListener {
  if ('cat' in canned) return sendFile(canned.cat);
  if ('store' in canned) return storeBody(canned.store);
  if ('other' in canned) return sendByPath(canned.paths, canned.other);
  return sendFixed(canned);
}

function sendByPath(paths: Record<string, FixedResponse>, other: FixedResponse): RequestListener {
  const listeners = new Map(Object.entries(paths).map(([path, response]) => [path, sendFixed(response)]));
  const sendOther = sendFixed(other);
  return (request, response) => (listeners.get(request.url ?? '') ?? sendOther)(request, response);
}

function sendFixed({ status, headers, body }: FixedResponse): RequestListener {
  const bytes = Buffer.from(body, 'base64');
  return (_request, response) => {
    response.writeHead(status, headers);
    response.end(bytes);
  };
}

function storeBody(folder: string): RequestListener {
  return async (request, response) => {
    const path = join(folder, randomUUID());
    // `flush` syncs the file before it is closed.
    await pipeline(request, createWriteStream(path, { flush: true }));
    response.writeHead(201).end();
    await rm(path);
  };
}

function sendFile(file: string): RequestListener {
  return (_request, response) => {
    spawn('cat', [file], { stdio: ['ignore', 'pipe', 'inherit'] }).stdout.pipe(response);
  };
}
