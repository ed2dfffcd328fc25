import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { killAll } from './attempt.ts';
import { until } from './until.ts';

/** The daemons of one test, each with a log of its own in the same folder. */
export interface Daemons {
  start(name: string, program: string, args: string[]): void;
  /** Resolves when it is gone, and does nothing when it is not there. */
  end(name: string, signal: NodeJS.Signals): Promise<void>;
  signal(name: string, signal: NodeJS.Signals): void;
  /** For a process that is just ending itself. */
  killAll(): void;
  /** Runs a command to its end; throws where it fails. */
  run(program: string, ...args: string[]): string;
  /** Gives up with what the daemons have written. */
  until(what: string, check: () => boolean): Promise<void>;
}

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** In `cwd`, with `variables` and hardly anything else in their environment. */
export function createDaemons(cwd: string, logFolder: string, variables: Record<string, string>): Daemons {
  endOnSignals();
  const env = { ...variables, PATH: path };
  const running = new Map<string, ChildProcess>();
  return {
    start(name, program, args) {
      const log = openSync(join(logFolder, `${name}.out`), 'a');
      // Dies with the process that started it, even if that is killed.
      const argv = ['--pdeathsig', 'KILL', program, ...args];
      running.set(name, spawn('setpriv', argv, { cwd, env, stdio: ['ignore', log, log] }));
      closeSync(log);
    },

    async end(name, signal) {
      const child = running.get(name);
      running.delete(name);
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGCONT');
      child.kill(signal);
      const straggler = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await ended;
      clearTimeout(straggler);
    },

    signal: (name, signal) => void running.get(name)?.kill(signal),

    killAll: () => killAll([...running.values()].flatMap(({ pid }) => pid ?? [])),

    run: (program, ...args) =>
      execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }),

    async until(what, check) {
      await until(what, () => check() || undefined, 30).catch((error: Error) => {
        const logs = readdirSync(logFolder).map((name) => `${name}:\n${readFileSync(join(logFolder, name), 'utf8')}`);
        throw new Error(`${error.message}\n${logs.join('\n')}`);
      });
    },
  };
}

/** A run of tests that takes too long is told to end: it must leave no job behind either. */
function endOnSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    if (process.listenerCount(signal) === 0) process.once(signal, () => process.exit(1));
  }
}
