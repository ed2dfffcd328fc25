import { isatty } from 'node:tty';
import type { Logger } from 'pino';

const standardStreams = [0, 1, 2];

/** Whether the process is in a terminal. One that has closed is none any more. */
const hasTerminal = () => standardStreams.some((descriptor) => isatty(descriptor));

/** At SIGHUP calls one of the functions: the signal means that the terminal of the process has closed, or asks for a reload. */
export function onHangUp(reload: () => void, onTerminalClosed: () => void): void {
  const startedInTerminal = hasTerminal();
  process.on('SIGHUP', () => (startedInTerminal && !hasTerminal() ? onTerminalClosed() : reload()));
}

export interface Reloads {
  /**
   * Adds something that a reload reads or opens again, such as a file that another program has replaced. What it returns is
   * logged.
   */
  onReload(part: string, reload: () => object): void;
  /** Reloads everything, in the order in which it was added. A part that fails is logged, and the others follow. */
  reload(): void;
}

export function createReloads(log: Logger): Reloads {
  const parts = new Map<string, () => object>();
  return {
    onReload: (part, reload) => void parts.set(part, reload),
    reload() {
      for (const [part, reload] of parts) {
        try {
          log.info({ part, ...reload() }, 'reloaded');
        } catch (err) {
          log.error({ part, err }, 'reload failed: the server continues with what it has');
        }
      }
    },
  };
}
