import { createInterface } from 'node:readline/promises';
import type { Writable } from 'node:stream';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';

/** Asks for a missing value on a terminal. In a pipe, and with --yes, the value is missing: a usage error. */
export async function ask(context: Context, subject: string, option: string): Promise<string> {
  if (!mayAsk(context)) throw usageError(`The ${subject.replace(/,.*/, '')} is missing.`, `Add ${option}.`);
  for (;;) {
    const answer = (await readAnswer(context, `The ${subject}: `)).trim();
    if (answer !== '') return answer;
  }
}

/** Asks for one of several values, by its number or its name. */
export async function choose(context: Context, subject: string, values: readonly string[], option: string) {
  const list = values.join(', ');
  if (!mayAsk(context)) throw usageError(`The ${subject} is missing.`, `Add ${option} with one of ${list}.`);
  values.forEach((value, index) => {
    context.note(`  ${index + 1}  ${value}`);
  });
  for (;;) {
    const answer = (await readAnswer(context, `The ${subject} (1 to ${values.length}): `)).trim();
    const value = values.find((name, index) => name === answer || String(index + 1) === answer);
    if (value !== undefined) return value;
    context.note(`Answer with a number from 1 to ${values.length}, or with one of ${list}.`);
  }
}

/** Asks a question whose answer is yes unless it begins with n. In a pipe the answer is yes. */
export async function confirm(context: Context, question: string): Promise<boolean> {
  if (!mayAsk(context)) return true;
  return !/^\s*n/i.test(await readAnswer(context, `${question} [Y/n] `));
}

function mayAsk(context: Context): boolean {
  return context.isInteractive && !(context.options as { yes?: boolean }).yes;
}

async function readAnswer({ stdin, stderr, signal }: Context, question: string): Promise<string> {
  const lines = createInterface({ input: stdin, output: stderr as unknown as Writable, terminal: true });
  // The interface takes Ctrl-C from the terminal, so it must pass it on.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    return await lines.question(question, { signal });
  } finally {
    lines.close();
  }
}
