import type { Command } from 'commander';
import { runs } from '../run-command.ts';
import { systemName, userCommand } from '../user-command.ts';

/** Adds the commands about the user: sign-in, profiles, tokens. */
export function accountCommands(program: Command): void {
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
    runs(() => import('./profiles.ts'), 'use'),
  );
  tokenCommands(program);
  userCommand(program, 'completion', 'print a script that makes a shell complete commands, jobs, systems and projects')
    .argument('<shell>', 'bash, zsh or fish')
    .addHelpText(
      'after',
      `
Examples:
  source <(bursar completion bash)               in ~/.bashrc
  source <(bursar completion zsh)                in ~/.zshrc, after compinit
  bursar completion fish | source                in ~/.config/fish/config.fish`,
    )
    .action(runs(() => import('../completion.ts')));
  program
    .command('complete-words [words...]', { hidden: true })
    .hook('preAction', (_, command) => void command.setOptionValue('program', program))
    .action(runs(() => import('../complete-words.ts')));
}

function tokenCommands(program: Command): void {
  const tokens = userCommand(program, 'tokens', 'list your tokens, create and revoke them');
  tokens.action(runs(() => import('./tokens.ts'), 'list'));
  userCommand(tokens, 'create <name>', 'create a token, for a script or a notebook; prints the token once')
    .option('--scopes <list>', 'what it may be used for, such as "jobs:read quotas:read"; default: as this token')
    .option('--system <name>', 'only for this system', systemName)
    .option('--project <name>', 'only for this project of the system')
    .option('--days <number>', 'its life in days')
    .action(runs(() => import('./tokens.ts'), 'create'));
  userCommand(tokens, 'revoke <id>', 'end a token at once').action(runs(() => import('./tokens.ts'), 'revoke'));
  const sessions = userCommand(program, 'sessions', 'list the browsers in which you are signed in');
  sessions.action(runs(() => import('./sessions.ts'), 'list'));
  userCommand(sessions, 'end [id]', 'sign a browser out; without an id, all of them').action(
    runs(() => import('./sessions.ts'), 'end'),
  );
}
