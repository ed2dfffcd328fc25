import type { EngineSystem, IsolationContext, SystemIsolation } from '../definition.ts';
import type { HiddenPath } from '../sandbox/arguments.ts';
import { findHiddenPaths } from '../sandbox/host.ts';

/** How the jobs of a cluster are isolated. */
export interface BatchIsolation {
  /** Whether a job that cannot be isolated on its node fails. Otherwise it runs without isolation. */
  required: boolean;
  /** Further paths that jobs can read. */
  readOnly: readonly string[];
  /** Paths that jobs must not see, if they exist on the node, although they may be inside a path that jobs can read. */
  hidden: readonly HiddenPath[];
  network: boolean;
  /** Whether jobs reach the scheduler. They can leave their isolation then: it starts tasks outside. */
  scheduler: boolean;
}

/**
 * Only the nodes know whether bubblewrap works there. With `auto` each node decides, so that nothing is promised: jobs count as
 * not isolated.
 */
export function resolveBatchIsolation(
  { engine, isolation, readOnly, network, scheduler }: EngineSystem,
  { workspaceFolders, secrets, ensured }: IsolationContext,
): SystemIsolation<BatchIsolation> {
  if (isolation === 'none') return { inEffect: ensured };
  // With ssh the files of Bursar are on another host than the jobs.
  const hidden = [
    ...[...new Set(workspaceFolders)].map((path) => ({ path, kind: 'folder' }) as const),
    ...(engine.ssh ? [] : findHiddenPaths(secrets)),
  ];
  return { inEffect: ensured, sandbox: { required: isolation === 'bubblewrap', readOnly, network, scheduler, hidden } };
}
