import { posix } from 'node:path';
import { isInside } from '../domain/systems/isolation.ts';
import { engineOf } from '../engines/registry.ts';
import type { SystemConfig } from './system-schema.ts';

/** Returns the errors in the keys about the isolation of jobs, as pairs of key and message. */
export function findIsolationErrors(system: SystemConfig): [string, string][] {
  const errors: [string, string][] = [];
  if (system.scheduler && engineOf(system).scheduler === undefined) {
    errors.push([
      'scheduler',
      `must be false: with engine.kind ${system.engine.kind} there is no scheduler whose commands jobs could use`,
    ]);
  }
  // The operator would believe that the network is closed while it is open.
  if (!system.network && system.isolation !== 'bubblewrap') {
    errors.push(['network', 'can be false only with isolation: bubblewrap, because only bubblewrap can close it']);
  }
  for (const path of system.readOnly) {
    const message = findPathError(path);
    if (message !== null) errors.push(['readOnly', `${path} ${message}`]);
  }
  return errors;
}

/** Folders that a job has for itself, or that hold the sockets of the host. */
const ownFolders = ['/proc', '/sys', '/dev', '/tmp', '/var/tmp', '/run', '/var/run'];

function findPathError(path: string): string | null {
  if (posix.normalize(path) !== path || (path.endsWith('/') && path !== '/')) {
    return `is not a normal path: write it without "..", "//" and a "/" at the end, like ${posix.join(path, '.').replace(/\/$/, '')}`;
  }
  if (path === '/') return 'would show everything: list the folders that jobs need, such as /opt';
  const folder = ownFolders.find((own) => isInside(path, own) || isInside(own, path));
  if (folder === undefined) return null;
  return `cannot be listed: jobs must not see ${folder} of the host. List other folders, such as /opt`;
}
