import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One file for each reserved port, with the pid of its owner: test files run in processes of their own, at the same time. */
const reservations = join(tmpdir(), 'bursar-test-ports');

/** Reserves free ports below the ephemeral range, so that neither the system nor another test uses them meanwhile. */
export async function freePorts(count: number): Promise<number[]> {
  mkdirSync(reservations, { recursive: true });
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(20_000, 32_000);
    if (reserve(port) && (await isFree(port))) ports.push(port);
  }
  return ports;
}

function reserve(port: number): boolean {
  const file = join(reservations, String(port));
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    // The owner is alive, or its reservation is removed for a later attempt.
    if (!isAlive(Number(readOwner(file)))) rmSync(file, { force: true });
    return false;
  }
}

function readOwner(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '0.0.0.0', () => server.close(() => resolve(true)));
  });
}
