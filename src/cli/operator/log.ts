import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import type { Config } from '../../config/schema.ts';
import { formatLogLine } from './log-text.ts';

const warnLevel = 40;
const standardError = 2;
/** Lines that cannot be written, to a full disk for example, are dropped beyond this size. */
const maxBufferedBytes = 1024 * 1024;

/**
 * Opens the log on standard error: text for people on a terminal, one JSON object a line elsewhere, unless the configuration
 * chooses one. JSON lines are written in batches of 2 kB, at the latest after a second, because one system call a line costs
 * as much as the response that the line reports. A warning or an error is written at once, with all lines before it, and the
 * rest is written when the process exits, also by an uncaught exception. Only SIGKILL can lose lines. The writes are
 * synchronous: an exit cannot cut off a batch that is under way.
 */
export function openLog({ level, format }: Config['log']): Logger {
  const isText = format === 'text' || (format === 'auto' && isatty(standardError));
  const batching = isText ? {} : { minLength: 2048, periodicFlush: 1000 };
  const destination = pino.destination({ dest: standardError, sync: true, maxLength: maxBufferedBytes, ...batching });
  // The terminal or the reader of the log has gone, or the disk is full: the server goes on without a log.
  destination.on('error', () => undefined);
  process.on('exit', () => {
    try {
      destination.flushSync();
    } catch {
      // As above.
    }
  });
  if (isText) return pino({ level, base: null }, { write: (line) => void destination.write(formatLogLine(line)) });
  const hooks: pino.LoggerOptions['hooks'] = {
    logMethod(args, method, severity) {
      method.apply(this, args);
      if (severity >= warnLevel) destination.flush();
    },
  };
  return pino({ level, base: null, hooks }, destination);
}
