import type { Command } from 'commander';
import { runs } from '../run-command.ts';
import { collect, systemName, userCommand } from '../user-command.ts';

/** Adds the commands that submit jobs. */
export function submitCommands(program: Command): void {
  jobOptions(userCommand(program, 'submit [input]', 'submit a job with the files of a folder or a zip'))
    .option('--param <name=value>', 'a parameter of the tool, or the value of {name} in the command', collect, [])
    .option('--watch', 'follow the job to its end, and exit with its result')
    .option('--dry-run', 'check everything and show the cost, but submit nothing')
    .option('--key <key>', 'submit once: the same command with the same key returns the same job')
    .addHelpText('after', submitHelp)
    .action(runs(() => import('./submit.ts')));
  jobOptions(userCommand(program, 'sweep <input>', 'submit one job for each combination of parameters'))
    .option(
      '--param <name=values>',
      'the values of a parameter: a=1,2,3 or b=0.1..0.5:0.1 (from, to, step)',
      collect,
      [],
    )
    .option('--max-running <jobs>', 'at most so many unfinished jobs at a time; submit more as they end')
    .option('--watch', 'show all jobs until the last one has ended')
    .option('--collect <folder>', 'wait for the jobs, and download the files of each that succeeded')
    .option('--retry-failed', 'submit the jobs that failed or were cancelled again')
    .option('--dry-run', 'check everything and show the cost, but submit nothing')
    .addHelpText('after', sweepHelp)
    .action(runs(() => import('../sweep/sweep.ts')));
}

/** The options that describe a job. A bursar.yaml in the folder may have all of them. */
function jobOptions(command: Command): Command {
  return command
    .option('--system <name>', 'the HPC system; not needed if only one can run the job', systemName)
    .option('--project <name>', 'the project; default: that of the system')
    .option('--command <command>', 'batch systems: "sbatch run.sh", or any shell command')
    .option('--tool <name>', 'tool systems: the name of the tool')
    .option('--nodes <number>', 'the number of nodes')
    .option('--cores <number>', 'the number of cores on each node')
    .option('--runtime <time>', 'the longest runtime: hours, or 90m, 12h, 2d, 01:30:00')
    .option('--title <text>', 'the title; default: the name of the folder or zip')
    .option('--tag <word>', 'a word that finds the job again; may be repeated', collect, [])
    .option('--yes', 'ask nothing; a missing value is an error');
}

const inputHelp = `
A folder is zipped while it is sent. .bursarignore in the folder lists files to leave out, like a .gitignore; .git,
.bursar, .bursarignore, bursar.yaml and .DS_Store are left out unless a line such as !bursar.yaml brings them back.
The files are checked by the rules of the server before anything is sent.

bursar.yaml in the folder may hold the options, and these win over it:
  system: hpc_one
  command: sbatch run.sh {steps}
  cores: 8
  runtime: 90m
  params: { steps: 100 }`;

const submitHelp = `${inputHelp}

Examples:
  bursar submit .
  bursar submit model/ --command "sbatch run.sh" --cores 8 --runtime 2h --watch
  bursar submit input.zip --system hpc_two --tool PYTHON3 --param arguments="--steps 100"
  bursar submit --command hostname --dry-run`;

const sweepHelp = `${inputHelp}

{name} in the command, the title and the tags becomes the value, as it is: write quotes around it in the command if a
value has spaces. A parameter of the tool is passed to the tool. The state is in .bursar/ in the folder: run the same
command again after an interruption, and it submits only what is missing; with more values, it submits the new ones.

Examples:
  bursar sweep model/ --command "sbatch run.sh {a} {b}" --param a=1,2,3 --param b=0.1..0.5:0.1 --max-running 10
  bursar sweep model/ --command "sbatch run.sh {a} {b}" --param a=1,2,3 --param b=0.1..0.5:0.1 --collect results/`;
