import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attempt } from './attempt.ts';
import { exitOnSignals } from './daemons.ts';

/** A file system of its own that can be filled. */
export interface SmallDisk {
  folder: string;
  /** Fills the disk, except for this much. Returns whether there was more space. */
  fill(leaveKb?: number): boolean;
  /** Frees everything that `fill` has written. */
  free(): void;
  unmount(): void;
}

/** Mounts a tmpfs, which needs root or sudo without a password. Throws if that is missing: the tests must not pass without it. */
export function mountSmallDisk(sizeMb: number): SmallDisk {
  // Short, because the path of a socket can have 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), 'disk-'));
  const ballast = join(folder, 'ballast');
  runAsRoot('mount', '-t', 'tmpfs', '-o', `size=${sizeMb}m,mode=1777`, 'bursar-test', folder);
  // Lazily, because jobs of a failed test may still use it.
  const unmount = () => {
    runAsRoot('umount', '-l', folder);
    rmdirSync(folder);
    process.off('exit', unmountAtExit);
  };
  const unmountAtExit = () =>
    attempt(() => {
      unmount();
      return true;
    });
  exitOnSignals();
  process.on('exit', unmountAtExit);
  return {
    folder,
    fill(leaveKb = 0) {
      const file = openSync(ballast, 'a');
      const freeBytes = () => {
        const { bavail, bsize } = statfsSync(folder);
        return bavail * bsize - leaveKb * 1024;
      };
      const hadSpace = freeBytes() > 0;
      try {
        for (let free = freeBytes(); free > 0; free = freeBytes())
          writeSync(file, Buffer.alloc(Math.min(free, 1 << 20)));
      } catch (error) {
        // A server that runs may have taken the last bytes.
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
      return hadSpace;
    },
    free: () => rmSync(ballast, { force: true }),
    unmount,
  };
}

function runAsRoot(...command: string[]): void {
  const [program = '', ...args] = process.getuid?.() === 0 ? command : ['sudo', '-n', ...command];
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
