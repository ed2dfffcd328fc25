import { randomUUID } from 'node:crypto';
import { runFile } from './command-line.ts';
import { oldestNode, userProgram } from './oldest-node.ts';
import { until } from './until.ts';

export interface TerminalOptions {
  columns?: number;
  rows?: number;
  /** Variables of the shell. Those of the tests that begin with BURSAR_ are not inherited. */
  env?: Record<string, string>;
}

/** A shell in a real terminal. `bursar` in it is the command line. */
export interface Terminal {
  /** Types a line and presses Enter. */
  type(line: string): Promise<void>;
  /** Presses keys by the names of tmux, such as `C-c` or `Tab`. */
  press(...keys: string[]): Promise<void>;
  /** The text on the screen, without the spaces at the ends of lines. */
  screen(): Promise<string>;
  /** The text on the screen with its colours, as escape sequences. */
  colouredScreen(): Promise<string>;
  /** Everything since the start, also what has scrolled off the screen. */
  history(): Promise<string>;
  /** Waits until the screen matches, and returns it. */
  waitFor(pattern: RegExp): Promise<string>;
  resize(columns: number, rows: number): Promise<void>;
  close(): Promise<void>;
}

/** Opens a terminal with bash, whose prompt is `$ `. tmux is the terminal: it runs every escape sequence and draws a screen. */
export async function openTerminal({ columns = 100, rows = 30, env = {} }: TerminalOptions = {}): Promise<Terminal> {
  const socket = `bursar-test-${randomUUID()}`;
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(BURSAR_|NODE_|TMUX|NO_COLOR|FORCE_COLOR)/.test(name),
  );
  const environment = { ...Object.fromEntries(inherited), LANG: 'C.UTF-8', TERM: 'xterm-256color', ...env };
  const tmux = async (...args: string[]) =>
    (await runFile('tmux', ['-L', socket, '-f', '/dev/null', ...args], { env: environment })).stdout;
  const shell = ['bash', '--norc', '--noprofile', '-i'];
  const start = `PS1='$ '; bursar() { '${oldestNode}' '${userProgram}' "$@"; }; clear`;
  await tmux('new-session', '-d', '-x', String(columns), '-y', String(rows), ...shell);
  const screen = () => tmux('capture-pane', '-p');
  const terminal: Terminal = {
    async type(line) {
      await tmux('send-keys', '-l', line);
      await tmux('send-keys', 'Enter');
    },
    press: async (...keys) => void (await tmux('send-keys', ...keys)),
    screen,
    colouredScreen: () => tmux('capture-pane', '-p', '-e'),
    history: () => tmux('capture-pane', '-p', '-S', '-'),
    async waitFor(pattern) {
      let last = '';
      return await until(`a screen that matches ${pattern}`, async () => {
        last = await screen();
        return pattern.test(last) ? last : undefined;
      }).catch((error: Error) => {
        throw new Error(`${error.message}. The screen is:\n${last}`);
      });
    },
    resize: async (newColumns, newRows) => {
      await tmux('resize-window', '-x', String(newColumns), '-y', String(newRows));
    },
    close: async () => void (await tmux('kill-server').catch(() => undefined)),
  };
  await terminal.type(start);
  await terminal.waitFor(/^\$\n/);
  return terminal;
}
