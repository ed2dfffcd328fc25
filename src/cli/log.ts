import { type Logger, pino } from 'pino';

const warn = 40;

/**
 * The log, on standard error. Lines are written some at a time, a moment later: a system call for each would cost as much
 * as the answer that it tells of. What is a warning or worse is written at once, with all that came before it.
 */
export function openLog(level: string): Logger {
  const destination = pino.destination({ dest: 2, sync: true, minLength: 8192, periodicFlush: 100 });
  process.on('exit', () => destination.flushSync());
  const hooks: pino.LoggerOptions['hooks'] = {
    logMethod(args, method, severity) {
      method.apply(this, args);
      if (severity >= warn) destination.flushSync();
    },
  };
  return pino({ level, base: null, hooks }, destination);
}
