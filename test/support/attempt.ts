/** Runs an action that may fail. An exception counts as false. */
export function attempt(action: () => boolean): boolean {
  try {
    return action();
  } catch {
    return false;
  }
}

/** Sends a signal to processes that may have ended. */
export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) attempt(() => process.kill(pid, signal));
}

export function killAll(pids: readonly number[]): void {
  signalAll(pids, 'SIGKILL');
}

/** Kills the processes of a group that may have ended. `leader` is undefined if it could not be started. */
export function killGroup(leader: number | undefined): void {
  if (leader !== undefined) killAll([-leader]);
}
