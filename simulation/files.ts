import fs from 'node:fs';
import fsp from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { killed, never, nextFault } from './faults.ts';
import { tasks } from './virtual-time.ts';

type AsyncFunction = (...args: never[]) => Promise<unknown>;

/** They need space on the disk. */
const writing = new Set(['appendFile', 'copyFile', 'link', 'mkdir', 'open', 'rename', 'symlink', 'sync', 'writeFile']);

function diskError(syscall: string): Error {
  const code = writing.has(syscall) ? 'ENOSPC' : 'EIO';
  return Object.assign(new Error(`${code}: simulated fault of the disk`), { code, syscall });
}

/** A server can be killed before each operation, and a disk can be full or broken. */
async function onDisk<T>(name: string, operation: () => T): Promise<T> {
  const process = tasks.getStore()?.process;
  if (process?.isDead) return await never();
  const fault = process && nextFault('file')?.kind;
  if (fault === 'kill before') return await killed(process, `file ${name}`);
  if (fault === 'fail') throw diskError(name);
  return operation();
}

/**
 * Replaces the functions of `fs/promises` for simulated servers. They are synchronous, because threads would end them in another
 * order on every machine.
 */
export function simulateFileSystem(): void {
  const functions = fsp as unknown as Record<string, AsyncFunction>;
  for (const [name, original] of Object.entries(functions)) {
    const synchronous = { ...fs, openSync: openFile, opendirSync: readFolder }[`${name}Sync` as 'openSync'];
    if (synchronous === undefined) continue;
    functions[name] = async (...args) => {
      const process = tasks.getStore()?.process;
      if (process === undefined) return await original(...args);
      const result = await onDisk(name, () => (synchronous as (...args: never[]) => unknown)(...args));
      if (result instanceof OpenFile) process.openFiles.add(result);
      return result;
    };
  }
  syncBuiltinESMExports();
}

const openFile = (...args: Parameters<typeof fs.openSync>) => new OpenFile(fs.openSync(...args));

async function* readFolder(path: Buffer): AsyncGenerator<fs.Dirent<Buffer>> {
  yield* fs.readdirSync(path, { withFileTypes: true, encoding: 'buffer' });
}

/** The methods of a `FileHandle` that the sources use. */
export class OpenFile {
  readonly fd: number;
  #isOpen = true;

  constructor(fd: number) {
    this.fd = fd;
  }

  stat = (options?: fs.StatOptions) => onDisk('stat', () => fs.fstatSync(this.fd, options));
  sync = () => onDisk('sync', () => fs.fsyncSync(this.fd));
  truncate = (length?: number) => onDisk('truncate', () => fs.ftruncateSync(this.fd, length));
  appendFile = (data: Buffer) => onDisk('appendFile', () => fs.writeFileSync(this.fd, data));
  readFile = () => onDisk('readFile', () => fs.readFileSync(this.fd));

  async read(buffer: Buffer, offset: number, length: number, position: number | null) {
    const bytesRead = await onDisk('read', () => fs.readSync(this.fd, buffer, offset, length, position));
    return { bytesRead, buffer };
  }

  async close(): Promise<void> {
    if (this.#isOpen) fs.closeSync(this.fd);
    this.#isOpen = false;
  }
}
