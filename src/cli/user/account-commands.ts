import type { Command } from 'commander';
import { runs } from './run-command.ts';
import { userCommand } from './user-command.ts';

/** Adds the commands about the user: sign-in, profiles, tokens. */
export function accountCommands(program: Command): void {
  program.commandsGroup('Your account:');
  userCommand(program, 'login [url]', 'sign in at a server, and store the token in a profile')
    .option('--token [token]', 'use this token; without a value it is read from standard input')
    .option('--web', 'open the page in the browser')
    .option('--issuer <name>', 'sign in at this OpenID provider, or at "bursar" itself; default: the first provider')
    .option('--scopes <list>', 'what the token may be used for, such as "jobs:read quotas:read"; only at Bursar itself')
    .addHelpText(
      'after',
      `
Shows a code and an address. Open the address in any browser, sign in there and confirm the code.
Examples:
  bursar login https://bursar.example.org
  bursar login --token < token.txt
  bursar login --issuer bursar --scopes "jobs:read jobs:write admin:read"`,
    )
    .action(runs(() => import('./login.ts')));
  userCommand(program, 'logout', 'remove the profile, and revoke the token that "login" has got').action(
    runs(() => import('./logout.ts')),
  );
  userCommand(program, 'whoami', 'show the user, the server and the rights of the token').action(
    runs(() => import('./whoami.ts')),
  );
  const profiles = userCommand(program, 'profiles', 'list the profiles: servers with a token for each');
  profiles.action(runs(() => import('./profiles.ts')));
  userCommand(profiles, 'use <name>', 'make a profile the one that is used if none is named').action(
    runs(async () => ({ run: (await import('./profiles.ts')).use })),
  );
}
