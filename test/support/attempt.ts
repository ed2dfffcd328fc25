/** Runs an action that may fail. An exception counts as false. */
export function attempt(action: () => boolean): boolean {
  try {
    return action();
  } catch {
    return false;
  }
}

export function killAll(pids: readonly number[]): void {
  for (const pid of pids) attempt(() => process.kill(pid, 'SIGKILL'));
}
