import fs from 'node:fs';
import fsp from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { killed, never, nextFault } from './faults.ts';
import { tasks } from './virtual-time.ts';

type AsyncFunction = (...args: never[]) => Promise<unknown>;

const fullDisk = (syscall: string) => Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC', syscall });

/**
 * Replaces the functions of `fs/promises` for simulated servers. A server can be killed before each of them, and a disk can be
 * full. They are synchronous, because threads would end them in another order on every machine.
 */
export function simulateFileSystem(): void {
  const functions = fsp as unknown as Record<string, AsyncFunction>;
  for (const [name, original] of Object.entries(functions)) {
    const synchronous = { ...fs, openSync: openFile, opendirSync: readFolder }[`${name}Sync` as 'openSync'];
    if (synchronous === undefined) continue;
    functions[name] = async (...args) => {
      const process = tasks.getStore()?.process;
      if (process === undefined) return await original(...args);
      if (process.isDead) return await never();
      const fault = nextFault('file')?.kind;
      if (fault === 'kill before') return await killed(process, `file ${name}`);
      if (fault === 'fail') throw fullDisk(name);
      const result = (synchronous as (...args: never[]) => unknown)(...args);
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

  stat = async (options?: fs.StatOptions) => fs.fstatSync(this.fd, options);
  sync = async () => fs.fsyncSync(this.fd);
  truncate = async (length?: number) => fs.ftruncateSync(this.fd, length);
  appendFile = async (data: Buffer) => fs.writeFileSync(this.fd, data);
  readFile = async () => fs.readFileSync(this.fd);

  async read(buffer: Buffer, offset: number, length: number, position: number | null) {
    return { bytesRead: fs.readSync(this.fd, buffer, offset, length, position), buffer };
  }

  async close(): Promise<void> {
    if (this.#isOpen) fs.closeSync(this.fd);
    this.#isOpen = false;
  }
}
