import type { Command } from 'commander';
import { runs } from '../run-command.ts';
import { collect, systemName, userCommand } from '../user-command.ts';
import { jobArgument } from './find-job.ts';

/** Adds the commands about jobs that exist. */
export function jobCommands(program: Command): void {
  userCommand(program, 'jobs', 'list your jobs: the unfinished ones and those of the last 24 hours')
    .option('--all', 'all jobs')
    .option('--stage <stage>', 'only jobs in this stage, such as RUNNING')
    .option('--system <name>', 'only jobs on this system', systemName)
    .option('--project <name>', 'only jobs in this project')
    .option('--since <time>', 'only jobs submitted since then: 90m, 12h, 7d, 2w, or a date')
    .option('--title <title>', 'only jobs with exactly this title')
    .option('--tag <tag>', 'only jobs with this tag; repeat it for jobs that have all of several tags', collect)
    .option('--failed', 'only failed jobs')
    .option('--watch', 'show the changes as they happen, until no job is unfinished')
    .action(runs(() => import('./jobs.ts')));
  const job = program.command('job').description('show, follow, download, cancel, delete or repeat one job');
  addJobCommands(job);
  userCommand(job, 'download', 'download the files of a job; an interrupted download continues')
    .argument(...jobArgument)
    .argument('[paths...]', 'files or folders of the job; default: all')
    .option('-o, --output <path>', 'the folder, or the file for --zip; "-" prints one file; default: the id of the job')
    .option('--zip', 'download all files as one zip')
    .action(runs(() => import('./download.ts')));
  userCommand(job, 'resubmit', 'submit a new job with the request and the tags of an earlier one')
    .argument(...jobArgument)
    .argument('[input]', 'the folder or zip with its input files')
    .option('--without-input', 'the job has no input files')
    .option('--command <command>', 'the command, for batch systems; default: that of the earlier job')
    .option('--tool <tool>', 'the tool; default: that of the earlier job')
    .option('--nodes <number>', 'nodes; default: those of the earlier job')
    .option('--cores <number>', 'cores on each node; default: those of the earlier job')
    .option('--runtime <time>', 'hours, or 90m, 2d; default: that of the earlier job')
    .option('--title <title>', 'default: that of the earlier job')
    .option(
      '--param <name=value>',
      'a parameter of the tool; may be repeated; default: those of the earlier job',
      collect,
    )
    .addHelpText(
      'after',
      `
The server cannot tell the input of the earlier job from its results. So name the folder or zip again.
Example:
  bursar job resubmit @last model/ --cores 16`,
    )
    .action(runs(() => import('./resubmit.ts')));
}

/** The commands that also administrators have, for the jobs of all users. */
export function addJobCommands(job: Command, owner: 'caller' | 'anyone' = 'caller'): void {
  const jobCommand = (name: string, description: string) =>
    userCommand(job, name, description)
      .argument(...jobArgument)
      .hook('preAction', (_, command) => void command.setOptionValue('owner', owner));
  const show = jobCommand('show', 'show one job: its stage, times and cost');
  if (owner === 'caller') show.option('--watch', 'until the job has ended; the exit code is that of the job');
  show.action(runs(() => import('./show.ts')));
  jobCommand('timeline', 'show what has happened to a job').action(runs(() => import('./timeline.ts')));
  jobCommand('log', 'print the output of a job')
    .option('-f, --follow', 'until the job has ended; the exit code is that of the job')
    .option('--stderr', 'the standard error instead of the standard output')
    .action(runs(() => import('./log.ts')));
  jobCommand('files', 'list the files of a job').action(runs(() => import('./files.ts')));
  const reasonOption = ['--reason <text>', 'why; the owner of the job is told'] as const;
  const cancel = jobCommand('cancel', 'cancel a job; its files stay');
  if (owner === 'caller') cancel.option('--wait', 'until the job has ended');
  else cancel.requiredOption(...reasonOption);
  cancel.action(runs(() => import('./cancel.ts')));
  const remove = jobCommand('delete', 'delete the files of a finished job');
  if (owner === 'anyone') remove.requiredOption(...reasonOption);
  remove.action(runs(() => import('./delete.ts')));
}
