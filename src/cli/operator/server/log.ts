import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import type { Config } from '../../../config/schema.ts';
import { BursarError } from '../../../domain/errors.ts';
import { formatLogLine } from './log-text.ts';

const warnLevel = 40;
const standardError = 2;
/** A new log file is for its owner only: lines name users and their addresses. */
const fileMode = 0o600;
/** Lines that cannot be written, to a full disk for example, are dropped beyond this size. */
const maxBufferedBytes = 1024 * 1024;

export interface LogSettings {
  level: string;
  format: Config['log']['format'];
  /** Undefined: standard error. */
  file?: string | undefined;
}

export interface OpenedLog {
  log: Logger;
  /**
   * Opens the file anew, after a rotation has renamed it, and returns its name. No line is lost. Throws, and keeps the old one, if
   * that fails.
   */
  reopen(): { file: string | undefined };
}

/**
 * Opens the log, on standard error or in a file: text for people on a terminal, one JSON object a line elsewhere, unless the
 * configuration chooses one. JSON lines are written in batches of 2 kB, at the latest after a second, because one system call
 * a line costs as much as the response that the line reports. A warning or an error is written at once, with all lines before
 * it, and the rest is written when the process exits, also by an uncaught exception. Only SIGKILL can lose lines. The writes
 * are synchronous: an exit cannot cut off a batch that is under way.
 */
export function openLog({ level, format, file }: LogSettings): OpenedLog {
  const isText = format === 'text' || (format === 'auto' && file === undefined && isatty(standardError));
  const batching = isText ? {} : { minLength: 2048, periodicFlush: 1000 };
  if (file !== undefined) requireLogFile(file);
  const destination = pino.destination({
    dest: file ?? standardError,
    mode: fileMode,
    sync: true,
    maxLength: maxBufferedBytes,
    ...batching,
  });
  // The terminal or the reader of the log has gone, or the disk is full: the server goes on without a log.
  destination.on('error', () => undefined);
  // Unlike flushSync, which repeats a write that fails for ever.
  process.on('exit', () => destination.end());
  const reopen = () => {
    if (file !== undefined) {
      requireLogFile(file);
      destination.reopen();
    }
    return { file };
  };
  if (isText)
    return {
      log: pino({ level, base: null }, { write: (line) => void destination.write(formatLogLine(line)) }),
      reopen,
    };
  const hooks: pino.LoggerOptions['hooks'] = {
    logMethod(args, method, severity) {
      method.apply(this, args);
      if (severity >= warnLevel) destination.flush();
    },
  };
  return { log: pino({ level, base: null, hooks }, destination), reopen };
}

function requireLogFile(file: string): void {
  try {
    closeSync(openSync(file, 'a', fileMode));
  } catch (cause) {
    const { message } = cause as Error;
    throw new BursarError('invalid_config', `log.file: cannot write to ${file}: ${message}`, { cause });
  }
}
