import { type Command, Option } from 'commander';
import { eventOptions } from '../events/event-commands.ts';
import { addJobCommands } from '../job/job-commands.ts';
import { projectDescription } from '../project.ts';
import { statementOptions } from '../quotas/quota-commands.ts';
import { runs } from '../run-command.ts';
import { systemName, userCommand } from '../user-command.ts';

const keyOption = ['--key <text>', 'idempotency key: repeating the command with the same key has no effect'] as const;
const reasonOption = ['--reason <text>', 'why; recorded permanently'] as const;
const projectArgument = ['<project>', projectDescription] as const;
const userArgument = ['<user>', 'user identifier, such as 301330'] as const;
const sinceDescription = '7d, 2w, or a date';

/** Adds the commands for administrators, operators, auditors and managers of projects. The server checks the role. */
export function adminCommands(program: Command): void {
  const admin = program
    .command('admin')
    .description('users, projects, grants, systems, jobs, audit trail and ledger of the whole server');
  userAdministration(admin);
  projectAdministration(admin);
  grantAdministration(admin);
  jobAdministration(admin);
  systemAdministration(admin);
}

function userAdministration(admin: Command): void {
  const load = () => import('./users.ts');
  userCommand(admin, 'users', 'list all users').action(runs(load, 'list'));
  const user = admin.command('user').description('show and change one user');
  const userOf = (name: string, description: string) => userCommand(user, name, description).argument(...userArgument);
  userOf('show', 'show a user, with the identities at OpenID providers').action(runs(load, 'show'));
  userOf('disable', 'refuse all requests of a user at once')
    .requiredOption(...reasonOption)
    .action(runs(load, 'disable'));
  userOf('enable', 'enable a user again')
    .requiredOption(...reasonOption)
    .action(runs(load, 'enable'));
  userOf('role', 'change the role of a user')
    .argument('<role>', 'user, auditor, operator or administrator')
    .requiredOption(...reasonOption)
    .action(runs(load, 'setRole'));
  userOf('tokens', 'list the tokens of a user').action(runs(load, 'listTokens'));
  userOf('revoke-tokens', 'revoke one token of a user, or all')
    .argument('[id]', 'the number of the token')
    .action(runs(load, 'revokeTokens'));
  userOf('sessions', 'list the browsers in which a user is signed in').action(runs(load, 'listSessions'));
  userOf('end-sessions', 'sign a user out of all browsers').action(runs(load, 'endSessions'));
}

function projectAdministration(admin: Command): void {
  const load = () => import('./projects.ts');
  userCommand(admin, 'projects', 'list all projects')
    .option('--system <name>', 'only on this system', systemName)
    .action(runs(load, 'list'));
  const project = admin.command('project').description('create and close a project, change its members');
  const projectOf = (name: string, description: string) =>
    userCommand(project, name, description).argument(...projectArgument);
  projectOf('create', 'create a project')
    .requiredOption('--time <seconds>', 'the grant of each member, in seconds of the charging unit')
    .requiredOption('--space <kb>', 'the space of each member, in KB')
    .option('--auto-join', 'every user is a member')
    .requiredOption(...reasonOption)
    .option(...keyOption)
    .action(runs(load, 'create'));
  projectOf('close', 'accept no more jobs for a project')
    .requiredOption(...reasonOption)
    .option(...keyOption)
    .action(runs(load, 'close'));
  projectOf('members', 'list the members of a project').action(runs(load, 'listMembers'));
  projectOf('set-member', 'add, remove or ban a member, or change the role')
    .argument(...userArgument)
    .addOption(
      new Option('--status <status>', 'default: that of the member, or active for a new one').choices([
        'active',
        'removed',
        'banned',
      ]),
    )
    .addOption(new Option('--role <role>', 'in the project').choices(['member', 'manager']))
    .requiredOption(...reasonOption)
    .action(runs(load, 'setMember'));
}

function grantAdministration(admin: Command): void {
  const load = () => import('./grants.ts');
  const grantOf = (name: string, description: string) =>
    userCommand(admin, name, description)
      .argument(...projectArgument)
      .requiredOption(...reasonOption)
      .option(...keyOption);
  grantOf('grant', 'increase or reduce the quota of a member, or the reserve of a project')
    .option('--user <number>', 'the member; default: the reserve of the project')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .option('--withdraw', 'reduce instead of increase')
    .option('--from-pool', 'take it from the reserve of the project, or return it there')
    .action(runs(load, 'change'));
  grantOf('transfer', 'move quota from one member of a project to another')
    .requiredOption('--from <number>', 'the member to take it from')
    .requiredOption('--to <number>', 'the member to give it to')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .action(runs(load, 'transfer'));
  grantOf('refund', 'refund time that a job was charged')
    .requiredOption('--job <job_id>', 'the whole id of the job')
    .requiredOption('--time <seconds>', 'seconds to refund, at most the charge')
    .action(runs(load, 'refund'));
  grantOf('open-period', 'open a period of a project')
    .requiredOption('--member <seconds>', 'the grant of each member')
    .option('--reserve <seconds>', 'the reserve of the project')
    .option('--starts <time>', 'the start: 7d or 2w from now, or a date; default: now')
    .option('--ends <time>', 'the end: 30d from now, or a date; default: until the next period')
    .action(runs(load, 'openPeriod'));
}

function jobAdministration(admin: Command): void {
  userCommand(admin, 'jobs', 'list the jobs of all users')
    .option('--user <number>', 'only those of this user')
    .option('--system <name>', 'only on this system', systemName)
    .option('--project <name>', 'only in this project; needs --system')
    .option('--stage <stage>', 'only in this stage')
    .option('--since <time>', `only those submitted since then: ${sinceDescription}`)
    .option('--failed', 'only failed ones')
    .option('--unfinished', 'only unfinished ones')
    .action(runs(() => import('./jobs.ts'), 'list'));
  addJobCommands(admin.command('job').description('show, follow, cancel or delete a job of any user'), 'anyone');
  userCommand(admin, 'quotas', 'list the quotas of all users, or of one')
    .argument('[user]', 'user identifier')
    .option('--system <name>', 'only on this system', systemName)
    .option('--project <name>', 'only in this project; needs --system')
    .action(runs(() => import('./quotas.ts'), 'list'));
  statementOptions(
    userCommand(admin, 'statement', 'show all changes of the quota of a user').argument(...userArgument),
  ).action(runs(() => import('../quotas/statement.ts')));
  userCommand(admin, 'usage', 'show the charged time by month, project and user')
    .argument('[user]', 'user identifier; default: all users', 'all')
    .option('--system <name>', 'only on this system')
    .option('--project <name>', 'only in this project; needs --system')
    .option('--csv', 'print CSV')
    .action(runs(() => import('../quotas/usage.ts')));
  eventOptions(userCommand(admin, 'events', 'list the events of a user').argument(...userArgument)).action(
    runs(() => import('../events/events.ts')),
  );
}

function systemAdministration(admin: Command): void {
  const systems = () => import('./systems.ts');
  userCommand(admin, 'systems', 'list the systems, or show one, with the errors of their schedulers')
    .argument('[name]', 'the name of a system', systemName)
    .action(runs(systems, 'list'));
  for (const name of ['pause', 'resume'] as const)
    userCommand(admin, name, name === 'pause' ? 'accept no jobs for a system' : 'accept jobs for a system again')
      .argument('<name>', 'the name of a system', systemName)
      .requiredOption('--reason <text>', 'why; users see it')
      .action(runs(systems, name));
  const webhooks = () => import('./webhooks.ts');
  userCommand(admin, 'webhooks', 'list the webhooks of all users, or of one')
    .argument('[user]', 'user identifier')
    .action(runs(webhooks, 'list'));
  for (const name of ['disable', 'enable'] as const)
    userCommand(admin, `${name}-webhook`, `${name} a webhook of a user`)
      .argument(...userArgument)
      .argument('<id>', 'the number of the webhook')
      .requiredOption(...reasonOption)
      .action(runs(webhooks, name));
  userCommand(admin, 'audit', 'list the audit trail, newest first')
    .option('--actor <user>', 'only actions of this user')
    .option('--action <action>', 'only this kind, such as token.create')
    .option('--subject <subject>', 'only about this subject')
    .option('--address <address>', 'only from this address')
    .option('--request <id>', 'only of this request id')
    .option('--from <time>', `only since then: ${sinceDescription}`)
    .option('--to <time>', `only until then: ${sinceDescription}`)
    .option('--limit <number>', 'how many', '100')
    .option('--csv', 'print CSV')
    .action(runs(() => import('./audit.ts'), 'list'));
  userCommand(admin, 'verify-ledger', 'add up the whole ledger; fails if a balance is wrong').action(
    runs(() => import('./ledger.ts'), 'verify'),
  );
}
