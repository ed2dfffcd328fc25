import { randomBytes } from 'node:crypto';
import { posix } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { chunks } from '../../../domain/chunks.ts';
import { BursarError } from '../../../domain/errors.ts';
import type { WorkspaceUsage } from '../../../domain/jobs/file-limits.ts';
import { createSlots } from '../../../domain/slots.ts';
import { msPerHour } from '../../../domain/units.ts';
import type { RunResult, Shell } from '../../../shell/shell.ts';
import { requireJobId } from '../../safe-paths.ts';
import { type CheckedZip, withZip, type ZipSource } from '../../zip/zip-content.ts';
import type { ZipLimits } from '../../zip/zip-entries.ts';
import { idleTimeout } from '../file-streams.ts';
import { pathsIn, toJobIds, type Workspaces } from '../workspaces.ts';
import { createRemoteReader, type MinRate } from './remote-reader.ts';
import { zipToTar } from './tar.ts';
import { commitScript, discardScript, listScript, measureScript, removeScript, unpackScript } from './write-scripts.ts';

export interface RemoteWorkspacesOptions {
  /** Runs commands on the host that has the workspaces. */
  shell: Shell;
  /** The folder of all workspaces: an absolute path on the remote host. */
  root: string;
  /** Time limit of a read until its first byte. Clients wait for it. */
  readTimeoutMs: number;
  /** Lists and archives of more files and folders fail. */
  maxEntries?: number;
  /** Downloads, archives and lists that are slower are ended while others wait. */
  minRate?: MinRate;
}

/** Generous, because a cluster file system can be slow with many files, but finite, because a command can hang. */
const commandTimeoutMs = 600_000;
const transferTimeoutMs = msPerHour;
const transferIdleTimeoutMs = 120_000;
const maxOutputBytes = 64_000_000;
/** Fewer than the shell allows, so that a file system that hangs does not delay the scheduler's commands. */
const uploadSlots = { total: 3, perKey: 2 };
/** Apart from uploads, which can take long: the end of a job waits for the size of its files. */
const commandConcurrency = 2;
/** Their paths fit into a command line. */
const jobsPerMeasurement = 100;

/**
 * Workspaces on another host, with the guarantees of `Workspaces`. The first command of an upload unpacks an archive
 * into a folder of this attempt. After its success a second command renames that folder to the workspace. So neither a
 * lost connection nor a command of an earlier attempt that still runs can leave a partial workspace.
 *
 * Additional failure: `unavailable` (transient) if the host cannot be reached.
 */
export function createRemoteWorkspaces(options: RemoteWorkspacesOptions): Workspaces {
  const { shell, root, readTimeoutMs: timeoutMs } = options;
  const workspacePath = (jobId: string) => posix.join(root, requireJobId(jobId));

  const uploads = createSlots(uploadSlots);
  const commands = createSlots({ total: commandConcurrency });

  async function runScript(
    action: string,
    script: string,
    args: string[],
    signal: AbortSignal,
    stdin?: Readable,
  ): Promise<string> {
    const result = await shell.run(['sh', '-c', script, 'sh', ...args], {
      signal,
      timeoutMs: stdin === undefined ? commandTimeoutMs : transferTimeoutMs,
      maxOutputBytes,
      ...(stdin && { stdin }),
    });
    if (result.code !== 0) throw toRemoteError(action, shell.hostLabel, result);
    return result.stdout;
  }

  const runCommand = (action: string, script: string, args: string[], signal: AbortSignal) =>
    commands.run(() => runScript(action, script, args, signal), { signal });

  /** Unpacks a zip into a folder of its own on the host, which becomes the workspace when it is complete. */
  async function upload(workspace: string, source: ZipSource | null, limits: ZipLimits, signal: AbortSignal) {
    const action = 'create the workspace of the job';
    const attempt = randomBytes(8).toString('hex');
    const unpack = (kind: 'tar' | 'empty', tar?: Readable) =>
      runScript(action, unpackScript, [workspace, attempt, kind], signal, tar);
    try {
      if (source === null) await unpack('empty');
      else await withZip(source, limits, (zip) => unpack('tar', openTar(zip)));
    } catch (error) {
      // After any other error there is a next attempt, which deletes the files of this one.
      if (error instanceof BursarError && error.code === 'invalid_zip') {
        await runScript(action, discardScript, [workspace, attempt], signal).catch(() => undefined);
      }
      throw error;
    }
    await runScript(action, commitScript, [workspace, attempt], signal);
  }

  function openTar(zip: CheckedZip): Readable {
    const message = `The upload of the job's files to ${shell.hostLabel} stalled. Try again later.`;
    const tar = Readable.from(zipToTar(zip), { objectMode: false });
    return pipeline(tar, idleTimeout(transferIdleTimeoutMs, message), () => undefined);
  }

  return {
    ...createRemoteReader(shell, { ...options, timeoutMs }),

    pathsOf: (jobId) => pathsIn(workspacePath(jobId)),

    async stage(jobId, zip, limits, signal, owner = '') {
      const workspace = workspacePath(jobId);
      await uploads.run(() => upload(workspace, zip, limits, signal), { key: owner, signal });
    },

    async measure(jobIds, signal, maxEntries = Number.MAX_SAFE_INTEGER) {
      const usages = new Map<string, WorkspaceUsage>();
      for (const chunk of chunks(jobIds, jobsPerMeasurement)) {
        const args = [String(maxEntries), ...chunk.map(workspacePath)];
        const output = await runCommand('measure the files of jobs', measureScript, args, signal);
        for (const [index, line] of output.trimEnd().split('\n').entries()) {
          const [bytes = 0, entries = 0] = line.split(' ').map(Number);
          usages.set(chunk[index] ?? '', { bytes, entries });
        }
      }
      return usages;
    },

    async list(signal) {
      return toJobIds((await runCommand('list the files of jobs', listScript, [root], signal)).split('\n'));
    },

    async remove(jobId, signal) {
      await runCommand('remove the files of a job', removeScript, [workspacePath(jobId)], signal);
    },
  };
}

/** The messages of the C library for the transient codes in file-system-errors.ts. */
const transientMessages =
  /No space left|quota exceeded|Input\/output error|Stale file|Read-only file system|resource busy|not empty|timed out|Cannot allocate|Too many open files|temporarily unavailable/i;

/** Converts the result of a failed script to a BursarError. Its message hides stderr, which contains paths. */
function toRemoteError(action: string, host: string, { code, stderr }: RunResult): BursarError {
  const cause = new Error(stderr.trim());
  const reason = transientMessages.exec(stderr)?.[0];
  if (code === null || reason !== undefined) {
    const message = `Bursar could not ${action} on ${host} just now (${reason ?? 'killed'}). Try again later.`;
    return new BursarError('unavailable', message, { cause, transient: true });
  }
  const message = `Bursar could not ${action} on ${host} (exit code ${code}). Contact the operators of this service.`;
  return new BursarError('internal', message, { cause });
}
