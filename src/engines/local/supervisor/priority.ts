import { writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../../domain/errors.ts';

const niceness = 5;
const retryMs = 500;

/** Lets the server have the CPU before this process and the jobs that it starts, which inherit that. */
export function lowerOwnPriority(): void {
  void lowerSessionPriority(process.pid);
  try {
    setPriority(Math.min(19, getPriority() + niceness));
  } catch (error) {
    // A container or a service manager may forbid it.
    console.error(error);
  }
}

/**
 * Where Linux gives each session an equal part of the CPU (`sched_autogroup_enabled`), the priority of a process counts only within
 * its session, and this lowers that of the session. An ordinary account can do it ten times a second.
 */
export async function lowerSessionPriority(pid: number): Promise<void> {
  for (;;) {
    try {
      writeFileSync(`/proc/${pid}/autogroup`, String(niceness));
      return;
    } catch (error) {
      if (errnoCode(error) !== 'EAGAIN') return;
    }
    await sleep(retryMs, undefined, { ref: false });
  }
}
