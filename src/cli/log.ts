import { type Logger, pino } from 'pino';

const warn = 40;
const mostWaiting = 65_536;
const waitMs = 100;

/**
 * The log, on standard error. Lines are written many at a time, a moment later: a system call for each would cost as much
 * as the answer that it tells of. What is a warning or worse is written at once, with all that came before it.
 */
export function openLog(level: string): Logger {
  const destination = pino.destination({ dest: 2, sync: true });
  let waiting = '';
  let timer: NodeJS.Timeout | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting !== '') destination.write(waiting);
    waiting = '';
  };
  const lines = {
    write(line: string) {
      waiting += line;
      if (waiting.length > mostWaiting) flush();
      else timer ??= setTimeout(flush, waitMs).unref();
    },
  };
  process.on('exit', flush);
  const hooks: pino.LoggerOptions['hooks'] = {
    logMethod(args, method, severity) {
      method.apply(this, args);
      if (severity >= warn) flush();
    },
  };
  return pino({ level, base: null, hooks }, lines);
}
