/** For what may fail without anybody minding. */
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
