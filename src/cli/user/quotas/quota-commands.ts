import type { Command } from 'commander';
import { projectDescription } from '../project.ts';
import { runs } from '../run-command.ts';
import { collect, systemName, userCommand } from '../user-command.ts';

/** Adds the commands about systems and quotas. */
export function quotaCommands(program: Command): void {
  userCommand(program, 'systems', 'list the systems, or show one: its limits, tools and state')
    .argument('[name]', 'the name of a system', systemName)
    .action(runs(() => import('../systems.ts')));
  userCommand(program, 'quota', 'show the time and space that you have left')
    .option('--system <name>', 'only on this system', systemName)
    .option('--project <name>', 'only in this project')
    .action(runs(() => import('./quota.ts')));
  userCommand(program, 'quote', 'show what a job would cost, and whether it would be accepted now')
    .option('--system <name>', 'the system; not needed if there is one', systemName)
    .option('--project <name>', 'the project; default: that of the system')
    .option('--nodes <number>', 'nodes; default: that of the system')
    .option('--cores <number>', 'cores on each node; default: that of the system')
    .option('--runtime <time>', 'hours, or 90m, 2d; default: that of the system')
    .option('--command <command>', 'the command, for batch systems')
    .option('--tool <tool>', 'the tool, for tool systems')
    .option('--param <name=value>', 'a parameter of the tool; may be repeated', collect)
    .action(runs(() => import('./quote.ts')));
  statementOptions(userCommand(program, 'statement', 'show all changes of a quota')).action(
    runs(() => import('./statement.ts')),
  );
  userCommand(program, 'usage', 'show the charged time by month and project')
    .option('--csv', 'print CSV')
    .action(runs(() => import('./usage.ts')));
}

export function statementOptions(command: Command): Command {
  return command
    .argument('[project]', `${projectDescription}; not needed if you have one`)
    .option('--from <time>', 'the start: 7d or 2w ago, or a date')
    .option('--to <time>', 'the end: 1d ago, or a date; default: now')
    .option('--csv', 'print CSV');
}
