import type { Bursar } from '#client';
import type { CommandEnvironment, CommonOptions } from './command-environment.ts';
import { type Connection, connect } from './profiles/connect.ts';
import { createStyle, type Style, usesColours } from './terminal/style.ts';
import { type Column, formatTable } from './terminal/table.ts';
import { escapeLog, escapeText } from './terminal/text.ts';

/** Everything that a users' command gets besides its options. */
export interface Context extends CommandEnvironment {
  readonly options: CommonOptions;
  /** Whether people read the output: it is a terminal, and JSON was not asked for. */
  readonly isTerminal: boolean;
  /** Whether lines of the output can be redrawn: a terminal without a cursor (TERM=dumb) cannot. */
  readonly canRedraw: boolean;
  /** Whether people can be asked: both the input and the messages are a terminal. */
  readonly isInteractive: boolean;
  /** The width of the terminal; undefined in a pipe. */
  columns(): number | undefined;
  readonly style: Style;
  readonly errorStyle: Style;
  /** The exit code if the command throws nothing. */
  exitCode: number;
  /** Printed if Ctrl-C or an error ends the command: how to come back to the job. After Ctrl-C the exit code is 101 then. */
  detachMessage: string | undefined;
  /** For clients of other servers or tokens than those of the profile. */
  readonly connection: Connection;
  /** The client of the profile. Throws if nobody is signed in. */
  client(): Promise<Bursar>;
  /** Writes text to standard output. Resolves when it was taken, so that a slow reader slows the command down. */
  print(text: string | Uint8Array): Promise<void>;
  /** Writes a message for people to standard error. It may have text of the server: escape sequences become harmless. */
  note(text: string): void;
  /** Prints the objects as JSON (--json) or as a table. `empty` tells people that there are none. */
  printTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[], empty: string): Promise<void>;
  /** Prints names and values below each other. The values may come from the server. */
  printFields(fields: readonly (readonly [name: string, value: string])[]): Promise<void>;
  printJson(value: unknown): Promise<void>;
  /** Prints one line of JSON, for a stream of objects. */
  printJsonLine(value: unknown): Promise<void>;
}

export function createContext(environment: CommandEnvironment, options: CommonOptions): Context {
  const { env, stdin, stdout, stderr } = environment;
  const isTerminal = stdout.isTTY === true && options.json !== true;
  const columns = () => (isTerminal ? (stdout.columns ?? 80) : undefined);
  const style = createStyle(usesColours(env, stdout.isTTY === true) && options.json !== true);
  const errorStyle = createStyle(usesColours(env, stderr.isTTY === true));
  let client: Promise<Bursar> | undefined;
  const log = (line: string) => void stderr.write(`${errorStyle('dim', escapeLog(line))}\n`);
  const connection = { env, options, now: environment.now, log };
  const context: Context = {
    ...environment,
    options,
    isTerminal,
    canRedraw: isTerminal && env.TERM !== 'dumb',
    isInteractive: stdin.isTTY === true && stderr.isTTY === true && options.json !== true,
    columns,
    style,
    errorStyle,
    exitCode: 0,
    detachMessage: undefined,
    connection,
    client() {
      client ??= connect(connection);
      return client;
    },
    print: (text) =>
      new Promise((resolve, reject) => {
        stdout.write(text, (error) => (error ? reject(error) : resolve()));
      }),
    note: (text) => void stderr.write(`${escapeLog(text)}\n`),
    async printTable(rows, tableColumns, empty) {
      if (options.json) return context.printJson(rows);
      if (rows.length === 0 && isTerminal) return context.note(empty);
      await context.print(formatTable(rows, tableColumns, { columns: columns(), style }));
    },
    async printFields(fields) {
      const width = Math.max(...fields.map(([name]) => name.length));
      const line = ([name, value]: readonly [string, string]) =>
        isTerminal
          ? `${style('dim', name.padEnd(width))}  ${escapeText(value)}\n`
          : `${name.replaceAll(' ', '_')}\t${escapeText(value)}\n`;
      await context.print(fields.map(line).join(''));
    },
    // JSON escapes some control characters only.
    printJson: (value) => context.print(`${escapeLog(JSON.stringify(value, null, 2))}\n`),
    printJsonLine: (value) => context.print(`${escapeLog(JSON.stringify(value))}\n`),
  };
  return context;
}
