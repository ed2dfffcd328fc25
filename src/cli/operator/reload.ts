import { isatty } from 'node:tty';
import type { Logger } from 'pino';

const standardStreams = [0, 1, 2];

/**
 * Whether the process was started in a terminal: the kernel or the shell sends SIGHUP when the terminal closes. Ask at the
 * start, because a terminal that has closed is none any more.
 */
export function hasTerminal(): boolean {
  return standardStreams.some((descriptor) => isatty(descriptor));
}

export interface Reloads {
  /** Adds something that a reload reads or opens again, such as a file that another program has replaced. */
  onReload(part: string, reload: () => void | Promise<void>): void;
  /** Reloads everything, in the order in which it was added. A part that fails is logged, and the others follow. */
  reload(): void;
}

export function createReloads(log: Logger): Reloads {
  const parts = new Map<string, () => void | Promise<void>>();
  // One reload at a time: the second of two waits for the first, because the files may have changed in between.
  let last = Promise.resolve();

  async function reloadAll(): Promise<void> {
    for (const [part, reload] of parts) {
      try {
        await reload();
        log.info({ part }, 'reloaded');
      } catch (err) {
        log.error({ part, err }, 'reload failed: the server continues with what it has');
      }
    }
  }

  return {
    onReload: (part, reload) => void parts.set(part, reload),
    reload() {
      last = last.then(reloadAll);
    },
  };
}
