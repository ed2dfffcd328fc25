import { isLoopback } from '../config/loopback.ts';
import type { SystemConfig } from '../config/system-schema.ts';
import type { FieldError } from '../domain/errors.ts';
import { type Isolation, isInside } from '../domain/systems/isolation.ts';
import { engineOf } from '../engines/registry.ts';
import { installBubblewrap } from '../engines/sandbox/host.ts';

/** How to isolate the jobs of a system that are not isolated. */
function isolateJobs({ settings }: SystemToCheck): string {
  const { isolation, scheduler } = settings;
  const keys = [
    // On a cluster, auto never counts as isolated.
    ...(isolation === 'none' || !runsHere(settings) ? ['isolation: bubblewrap'] : []),
    ...(scheduler ? ['scheduler: false'] : []),
  ];
  const set = keys.length === 0 ? '' : `Set ${keys.join(' and ')}. `;
  return `Or isolate jobs: ${set}${installBubblewrap}`;
}

export interface SystemToCheck {
  name: string;
  settings: Pick<SystemConfig, 'isolation' | 'scheduler' | 'engine'>;
  inEffect: Isolation;
  workspaceFolder: string;
}

export interface StartToCheck {
  systems: readonly SystemToCheck[];
  dataFolder: string;
  /** The address that Bursar listens on. */
  host: string;
  /** Whether the configuration is the one that comes with Bursar. */
  isShippedConfig: boolean;
  isRoot: boolean;
}

/**
 * Reasons not to start, because jobs that are not isolated run with the rights of Bursar. A new installation must run without any
 * preparation: with the configuration that comes with Bursar, on loopback, if `isolation: auto` finds no bubblewrap, the first two
 * rules are not enforced, and there is a warning instead.
 */
export function findIsolationRefusals(start: StartToCheck): FieldError[] {
  const { systems, dataFolder, host, isShippedConfig, isRoot } = start;
  const sharing = systems.filter(sharesAccount);
  const isNewInstallation = isShippedConfig && isLoopback(host);
  const strict = sharing.filter(({ settings }) => settings.isolation !== 'auto' || !isNewInstallation);
  const sshSystem = systems.find(({ settings: { engine } }) => engine.ssh !== undefined);
  return [
    ...strict
      .filter(({ settings }) => isRoot && runsHere(settings))
      .map((system) => ({
        field: `systems.${system.name}.engine.runAs`,
        message:
          'is required, because Bursar runs as root and jobs are not isolated: they would run as root too. Set it to an ' +
          `account for jobs, or start Bursar as another user. ${isolateJobs(system)}`,
      })),
    ...strict
      .filter(({ workspaceFolder }) => isInside(workspaceFolder, dataFolder) || isInside(dataFolder, workspaceFolder))
      .map((system) => ({
        field: `systems.${system.name}.engine.workspaceFolder`,
        message:
          `the workspaces (${system.workspaceFolder}) and the data folder (${dataFolder}) must not contain each other, because ` +
          'jobs are not isolated and run with the account of Bursar. Set it to a folder elsewhere, and move the existing ' +
          `workspaces there while no job runs. ${isolateJobs(system)}`,
      })),
    ...(sshSystem === undefined ? [] : sharing).map((system) => ({
      field: `systems.${system.name}`,
      message:
        `its jobs are not isolated and could use the ssh key of ${sshSystem?.name}. Run the two systems with two ` +
        `Bursars under different accounts${runsHere(system.settings) ? ', or set engine.runAs to an account for jobs' : ''}. ` +
        isolateJobs(system),
    })),
  ];
}

/** True if a job has the account of Bursar on a host with Bursar's files. */
function sharesAccount({ settings: { engine }, inEffect }: SystemToCheck): boolean {
  return inEffect.kind === 'none' && engine.runAs === undefined && engine.ssh === undefined;
}

/** Whether jobs run on the host of Bursar. */
const runsHere = (settings: SystemToCheck['settings']) => engineOf(settings).scheduler === undefined;
