import type { TSchema } from 'typebox';
import type { CommandLanguage } from '../domain/jobs/command.ts';
import type { Check } from '../domain/systems/finding.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import type { Workspaces } from '../files/workspaces/workspaces.ts';
import type { StartProcess } from '../shell/process.ts';
import type { Shell } from '../shell/shell.ts';
import type { SshTarget } from '../shell/ssh-connection.ts';
import type { Engine } from './engine.ts';
import type { Account } from './sandbox/arguments.ts';
import type { Bubblewrap, ProbedSettings } from './sandbox/host.ts';

/** Keys of `engine` that have the same meaning in every engine that has them. */
export interface EngineSettings {
  kind: string;
  workspaceFolder?: string;
  /** The account that jobs run as, if it is not that of Bursar. */
  runAs?: string;
  /** The host of the scheduler's commands. Undefined: the host of Bursar. */
  ssh?: Omit<SshTarget, 'controlFolder'>;
  /** Scheduler options of all jobs. Those of a project override them, and have the same schema. */
  site?: object;
}

/** The settings of an HPC system that engines need. */
export interface EngineSystem<Settings extends EngineSettings = EngineSettings> {
  engine: Settings;
  isolation: 'auto' | 'bubblewrap' | 'none';
  readOnly: readonly string[];
  network: boolean;
  scheduler: boolean;
  pollIntervalSeconds: number;
  maxPollIntervalSeconds: number;
  submittedJobsPerUser: number;
  limits: { files: number };
}

/** The scheduler of a cluster. */
export interface SchedulerNames {
  /** For messages. */
  name: string;
  /** The command that lists the queue. */
  listCommand: string;
  /** Starts a task of a job; a bash script follows. Isolated jobs have tasks that are isolated too. */
  taskCommand?: string;
}

/** How the jobs of a system run. */
export interface SystemIsolation<Sandbox = unknown> {
  /** For `auto`: the result of the probe. */
  inEffect: Isolation;
  /** The sandbox of jobs, if they are isolated at least on some hosts. */
  sandbox?: Sandbox;
  /** With `runAs`. */
  account?: Account;
}

export interface IsolationContext {
  /** The name of the system. */
  name: string;
  workspaceFolder: string;
  /** The workspace folders of all systems with this kind of engine: they may be on one cluster, where jobs have one account. */
  workspaceFolders: readonly string[];
  /** Files of Bursar and its account that no job may see. Some may not exist. */
  secrets: readonly string[];
  /** The isolation that the configuration guarantees, whatever a probe finds. */
  ensured: Isolation;
  probe(settings: Omit<ProbedSettings, 'hidden'>): Bubblewrap | { reason: string };
}

export interface BackendContext<Settings extends EngineSettings, Sandbox> {
  /** The name of the system. */
  name: string;
  system: EngineSystem<Settings>;
  dataFolder: string;
  workspaceFolder: string;
  isolation: SystemIsolation<Sandbox>;
  /** Files that are never opened as files of a job: see `lockedFiles` of the database. */
  protectedFiles: readonly string[];
  /** Starts the commands of a scheduler. */
  startProcess: StartProcess;
  /** Called with errors of the engine that no caller sees, because it retries by itself. They may be repeated often. */
  onError(message: string): void;
  /** Called with the name of every scheduler command before it runs. */
  onCommand(name: string): void;
  /** Called when it has ended, with or without success. */
  onCommandEnd(end: CommandEnd): void;
}

export interface CommandEnd {
  name: string;
  startedAt: number;
  endedAt: number;
  hasFailed: boolean;
}

/** Engine, files and shell of an HPC system. */
export interface EngineBackend {
  /** Called each time the lease of the system is acquired, because an engine caches observations. */
  createEngine(): Engine;
  workspaces: Workspaces;
  /** Runs the commands of the scheduler; null if there is none. */
  shell: Shell | null;
  maxPollMs: number;
  fullScanMs: number;
}

export interface DoctorContext<Settings extends EngineSettings> {
  system: EngineSystem<Settings>;
  shell: Shell | null;
  /** The `site` of each project. */
  sites: ReadonlyMap<string, object>;
}

/** A kind of engine. Each engine exports its definition, and `registry.ts` lists them. */
export interface EngineDefinition<Settings extends EngineSettings = EngineSettings, Sandbox = unknown> {
  /** The keys of `engine`. Its descriptions are the documentation of the engine in docs/configuration.md. */
  schema: TSchema & { description?: string; properties: Readonly<Record<string, TSchema>> };
  /** How users write the commands of jobs. */
  commandLanguage: CommandLanguage;
  /** Undefined: jobs run on the host of Bursar. */
  scheduler?: SchedulerNames;
  /** Checks that a schema cannot express: pairs of the key below `engine` and a message. `networkHost`: listened on, if not loopback. */
  findErrors(settings: Settings, networkHost: string | null): [key: string, message: string][];
  /** Throws `invalid_config`, with what to do, if jobs cannot be isolated as configured. */
  resolveIsolation(system: EngineSystem<Settings>, context: IsolationContext): SystemIsolation<Sandbox>;
  createBackend(context: BackendContext<Settings, Sandbox>): EngineBackend;
  /** The doctor's checks of the scheduler, before a test job runs. */
  runChecks?(check: Check, context: DoctorContext<Settings>): Promise<void>;
}
