import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { killAll } from './attempt.ts';
import { until } from './until.ts';

/** The daemons of one test. Each has its own log file in the same folder. */
export interface Daemons {
  start(name: string, program: string, args: string[]): void;
  /** Resolves when the daemon has exited; does nothing if it is not running. One that takes 5 s is killed, unless it `mustFinish`. */
  end(name: string, signal: NodeJS.Signals, options?: { mustFinish: boolean }): Promise<void>;
  signal(name: string, signal: NodeJS.Signals): void;
  /** Kills all daemons synchronously, for an exit handler. */
  killAll(): void;
  /** Runs a command and returns its stdout; throws if it fails. */
  run(program: string, ...args: string[]): string;
  /** Waits for a condition. After 2 minutes throws an error that contains the logs of the daemons. */
  until(what: string, check: () => boolean): Promise<void>;
}

/** Of daemons and commands. The PATH of the tests comes first: it can have another version of the software. */
export const daemonPath = `${process.env.PATH}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;

/** The path of a program, as daemons and commands find it. */
export function findProgram(name: string): string {
  const found = daemonPath
    .split(':')
    .find((folder) => statSync(join(folder, name), { throwIfNoEntry: false })?.isFile());
  if (found === undefined) throw new Error(`${name} is not installed`);
  return join(found, name);
}

/** Runs a command in `cwd` and returns its stdout; throws if it fails. Its environment is `variables` and PATH only. */
export const createRun =
  (cwd: string, variables: Record<string, string>): Daemons['run'] =>
  (program, ...args) => {
    const env = { ...variables, PATH: daemonPath };
    return execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  };

/** Daemons run in `cwd`; their environment is `variables` and PATH only. */
export function createDaemons(cwd: string, logFolder: string, variables: Record<string, string>): Daemons {
  exitOnSignals();
  const env = { ...variables, PATH: daemonPath };
  const running = new Map<string, ChildProcess>();
  return {
    start(name, program, args) {
      const log = openSync(join(logFolder, `${name}.out`), 'a');
      // The kernel kills the daemon when this process dies, even by SIGKILL.
      const argv = ['--pdeathsig', 'KILL', program, ...args];
      running.set(name, spawn('setpriv', argv, { cwd, env, stdio: ['ignore', log, log] }));
      closeSync(log);
    },

    async end(name, signal, { mustFinish } = { mustFinish: false }) {
      const child = running.get(name);
      running.delete(name);
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGCONT');
      child.kill(signal);
      const killTimer = mustFinish ? undefined : setTimeout(() => child.kill('SIGKILL'), 5_000);
      await ended;
      clearTimeout(killTimer);
    },

    signal: (name, signal) => void running.get(name)?.kill(signal),

    killAll: () => killAll([...running.values()].flatMap(({ pid }) => pid ?? [])),

    run: createRun(cwd, variables),

    async until(what, check) {
      await until(what, () => check() || undefined, 120).catch((error: Error) => {
        const logs = readdirSync(logFolder).map((name) => `${name}:\n${readFileSync(join(logFolder, name), 'utf8')}`);
        throw new Error(`${error.message}\n${logs.join('\n')}`);
      });
    },
  };
}

/** Makes SIGTERM and SIGINT run the exit handlers, so that an aborted test run leaves no processes behind. */
export function exitOnSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    if (process.listenerCount(signal) === 0) process.once(signal, () => process.exit(1));
  }
}
