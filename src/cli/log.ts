import { type Logger, pino } from 'pino';

const warnLevel = 40;

/**
 * Opens the log: one JSON object a line on standard error. Lines are written in batches of 2 kB, at the latest after a
 * second, because one system call a line costs as much as the response that the line reports. A warning or an error is
 * written at once, with all lines before it, and the rest is written when the process exits, also by an uncaught
 * exception. Only SIGKILL can lose lines. The writes are synchronous: an exit cannot cut off a batch that is under way.
 */
export function openLog(level: string): Logger {
  const destination = pino.destination({ dest: 2, sync: true, minLength: 2048, periodicFlush: 1000 });
  process.on('exit', () => destination.flushSync());
  const hooks: pino.LoggerOptions['hooks'] = {
    logMethod(args, method, severity) {
      method.apply(this, args);
      if (severity >= warnLevel) destination.flush();
    },
  };
  return pino({ level, base: null, hooks }, destination);
}
