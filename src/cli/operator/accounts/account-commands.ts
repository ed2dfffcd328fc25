import { type Command, Option } from 'commander';
import { siteRoles } from '../../../domain/identity/policy.ts';
import type { Operator } from '../operator.ts';

const actorOption = ({ name }: Operator) => ['--actor <name>', 'name to record in the audit trail', name] as const;

export function accountCommands(program: Command, operator: Operator): void {
  tokenCommands(program, operator);
  userCommands(program, operator);
}

function tokenCommands(program: Command, operator: Operator): void {
  const token = program.command('token').description('create, list and revoke access tokens');
  token
    .command('create')
    .description('create a token, and its user if new; prints only the token')
    .requiredOption('--user <number>', 'user identifier, such as 301330')
    .addOption(
      new Option('--admin', 'make the user an administrator and give the token administrator rights')
        .default(false)
        .conflicts('role'),
    )
    .addOption(
      new Option('--role <role>', 'give the user this role, and by default the token all scopes').choices(siteRoles),
    )
    .option('--scopes <list>', 'what the token can be used for, such as "jobs:read quotas:read"')
    .option('--hpc <name>', 'the only system that the token can be used for')
    .option('--project <name>', 'the only project of that system')
    .option('--name <name>', 'a name to recognise the token by', '')
    .option('--expires <duration>', 'lifetime, such as 12h, 30d or 52w (default: unlimited)')
    .option('--reason <text>', 'why; recorded permanently in the audit trail')
    .option(...actorOption(operator))
    .action(async (options) => (await import('./token.ts')).createToken(await operator.context(), options));
  token
    .command('list')
    .description('list tokens, without their secrets, which are not stored')
    .option('--user <number>', 'only the tokens of this user')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./token.ts')).printTokens(await operator.context(), options));
  token
    .command('revoke')
    .description('revoke a token at once')
    .argument('<id>', 'number of the token, as shown by "token list"')
    .requiredOption('--reason <text>', 'why; recorded permanently in the audit trail')
    .option(...actorOption(operator))
    .action(async (id: string, options) => (await import('./token.ts')).revoke(await operator.context(), id, options));
}

function userCommands(program: Command, operator: Operator): void {
  const user = program
    .command('user')
    .description('list users, change their roles, disable and enable them, sign them in');
  user
    .command('list')
    .description('list all users with their roles')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./user.ts')).listUsers(await operator.context(), options));
  user
    .command('show')
    .description('print one user as JSON')
    .argument('<number>', 'user identifier, such as 301330')
    .action(async (id: string) => (await import('./user.ts')).showUser(await operator.context(), id));
  const change = (name: string, description: string) =>
    user
      .command(name)
      .description(description)
      .argument('<number>', 'user identifier, such as 301330')
      .requiredOption('--reason <text>', 'why; recorded permanently in the audit trail')
      .option(...actorOption(operator));
  for (const action of ['disable', 'enable'] as const) {
    const description = action === 'disable' ? 'refuse all requests of a user at once' : 'enable a user again';
    change(action, description).action(async (id: string, options) =>
      (await import('./user.ts')).setEnabled(await operator.context(), action, id, options),
    );
  }
  change('role', 'change the role of a user')
    .argument('<role>', 'user, auditor, operator or administrator')
    .action(async (id: string, role: string, options) =>
      (await import('./user.ts')).setRole(await operator.context(), id, role, options),
    );
  for (const action of ['link', 'unlink'] as const) {
    const description =
      action === 'link'
        ? 'make an identity at an OpenID provider one of a user'
        : 'separate an identity at an OpenID provider from its user';
    user
      .command(action)
      .description(description)
      .requiredOption('--user <number>', 'user identifier, such as 301330')
      .requiredOption('--issuer <url>', 'issuer, as in oidc')
      .requiredOption('--subject <text>', 'subject at the issuer: the claim "sub"')
      .requiredOption('--reason <text>', 'why; recorded permanently in the audit trail')
      .option(...actorOption(operator))
      .action(async (options) => (await import('./user.ts')).link(await operator.context(), action, options));
  }
  const signIn = (name: string, description: string) =>
    user
      .command(name)
      .description(description)
      .requiredOption('--user <number>', 'user identifier, such as 301330')
      .option(...actorOption(operator));
  signIn('sign-in-link', 'print a link with which a user can sign in once, within 10 minutes').action(async (options) =>
    (await import('./sign-in.ts')).printSignInLink(await operator.context(), options),
  );
  signIn('confirm', 'confirm the code that a program shows, so that it gets a token of the user')
    .argument('<code>', 'the code, such as WDJB-MJHT')
    .option('--deny', 'refuse the program instead', false)
    .action(async (code: string, options) =>
      (await import('./sign-in.ts')).confirmDevice(await operator.context(), code, options),
    );
}
