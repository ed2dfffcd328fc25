const levelNames: Record<number, string> = {
  10: 'TRACE',
  20: 'DEBUG',
  30: 'INFO',
  40: 'WARN',
  50: 'ERROR',
  60: 'FATAL',
};

interface LogRecord {
  level: number;
  time: number;
  msg?: string;
  err?: { stack?: string; message?: string };
  [field: string]: unknown;
}

/** Formats a JSON line of the log for people: local time, level, message, fields, and the stack of an error below. */
export function formatLogLine(json: string): string {
  const { level, time, msg = '', err, ...fields } = JSON.parse(json) as LogRecord;
  const start = `${new Date(time).toTimeString().slice(0, 8)} ${(levelNames[level] ?? String(level)).padEnd(5)}`;
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${formatValue(value)}`);
  const stack = err === undefined ? [] : (err.stack ?? err.message ?? '').split('\n').map((line) => `\n    ${line}`);
  return `${escapeControls(`${start} ${msg}`)}${pairs.join('')}${stack.map(escapeControls).join('')}\n`;
}

/** JSON quotes and escapes everything that is more than a plain word. */
function formatValue(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@+-]+$/.test(value) ? value : escapeControls(JSON.stringify(value));
}

/** Callers choose some of the text, and a terminal would run the escape sequences in it. */
export function escapeControls(text: string): string {
  return text.replace(/(?!\n)\p{Cc}/gu, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
