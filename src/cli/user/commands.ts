import type { Command } from 'commander';
import type { Host } from '../host.ts';
import { accountCommands } from './account/account-commands.ts';
import { adminCommands } from './admin/admin-commands.ts';
import { eventCommands } from './events/event-commands.ts';
import { formatExitCodes } from './exit-codes.ts';
import { jobCommands } from './job/job-commands.ts';
import { quotaCommands } from './quotas/quota-commands.ts';
import { setHost } from './run-command.ts';
import { submitCommands } from './submit/submit-commands.ts';

/** Adds the commands that speak to a server over HTTP. Each imports its code when it runs. */
export function addUserCommands(program: Command, host: Host): void {
  setHost(program, host);
  program
    .option('--profile <name>', 'use this profile (BURSAR_PROFILE); "bursar profiles" lists them')
    .option('--insecure', 'send the token over plain HTTP, also to another host')
    .option('--verbose', 'show the requests, and the request id of an error');
  program.addHelpText('after', usersHelp);
  program.commandsGroup('Jobs:');
  submitCommands(program);
  jobCommands(program);
  program.commandsGroup('Systems and quotas:');
  quotaCommands(program);
  program.commandsGroup('Events:');
  eventCommands(program);
  program.commandsGroup('Your account:');
  accountCommands(program);
  program.commandsGroup('For administrators (over HTTP, with a role):');
  adminCommands(program);
}

const usersHelp = `
Environment:
  BURSAR_URL, BURSAR_TOKEN  the server and the token, instead of those of a profile
  BURSAR_PROFILE            the profile, instead of the chosen one
  NO_COLOR, FORCE_COLOR     no colours, or colours also in a pipe

Exit codes:
${formatExitCodes()}`;
