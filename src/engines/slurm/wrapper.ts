import { BursarError, unreachable } from '../../domain/errors.ts';
import type { JobCommand } from '../../domain/job.ts';
import type { EngineJob } from '../engine.ts';

/**
 * The batch script that Slurm runs: it sees to it that the job runs once and where it should, and then becomes the job,
 * so that Slurm sees how that ends. What the user brings is only ever named in it: `#SBATCH` lines of theirs are inert.
 */
export function wrapperScript(job: EngineJob): string {
  const { directory } = job.workspace;
  const run = commandLines(job.command);
  return `#!/bin/bash
# Written by Bursar.
umask 077
fail() { echo "bursar: $1" >&2; exit 1; }
directory=${quote(directory)}
# Slurm starts a job whose directory is not there in /tmp.
[ . -ef "$directory" ] || fail 'the job was not started in its own folder'
cd -- "$directory" || fail 'the folder of the job cannot be used'
# The second belt against a second run: making a folder succeeds once, on shared file systems too.
mkdir -- "$directory.started" || fail 'the job has been started before, and runs only once'
mkdir -p -- "$directory.tmp" || fail 'the folder for temporary files cannot be made'
export HOME="$directory" TMPDIR="$directory.tmp" LANG=C.UTF-8
export BURSAR_JOB_ID=${quote(job.jobId)}
export BURSAR_NODES=${job.nodes} BURSAR_CORES_PER_NODE=${job.coresPerNode} BURSAR_RUNTIME_SECONDS=${job.runtimeSeconds}
unset directory conf
unset -f fail
${run.join('\n')}
`;
}

function commandLines(command: JobCommand): string[] {
  switch (command.kind) {
    case 'line':
      return [`exec /bin/bash -c ${quote(command.line)}`];
    case 'script': {
      const script = quote(`./${command.script}`);
      return [`chmod u+x ${script}`, `exec ${words([`./${command.script}`, ...command.args])}`];
    }
    case 'argv':
      if (!command.argv[0]) throw new BursarError('job_refused', 'the command is empty');
      return [`exec -- ${words(command.argv)}`];
    default:
      return unreachable(command);
  }
}

const words = (argv: readonly string[]) => argv.map(quote).join(' ');

/**
 * A word for bash, on one line whatever is in it: sbatch refuses a script with the line ends of Windows, and lines of
 * its own could be taken for options.
 */
export function quote(text: string): string {
  if (text.includes('\0')) throw new BursarError('job_refused', 'the command holds a NUL character: remove it');
  const escaped = text
    .replace(/[\\']/g, (character) => `\\${character}`)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
    .replace(/[\x01-\x1f\x7f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `$'${escaped}'`;
}
