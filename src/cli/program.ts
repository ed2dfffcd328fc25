import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { formatConfig } from '../config/format.ts';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { siteRoles } from '../domain/identity/policy.ts';
import { fileSystemErrorCode } from '../files/file-system-errors.ts';
import { exitCodeFor } from './exit-codes.ts';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const actorOption = ['--actor <name>', 'name to record in the audit trail', process.env.USER ?? 'operator'] as const;

/** Runs one command. Results go to standard output, everything else to standard error. */
export async function runCommandLine(argv: string[]): Promise<void> {
  process.stdout.on('error', ignoreClosedOutput);
  // Nobody else may read what Bursar writes. Jobs of other accounts than its own do not read it either.
  process.umask(0o077);
  try {
    await buildProgram().parseAsync(argv);
  } catch (error) {
    if (!(error instanceof CommanderError)) writeError(`${formatError(error as Error)}\n`);
    process.exitCode = exitCodeFor(error);
  }
}

function writeError(text: string): void {
  process.stderr.on('error', ignoreClosedOutput).write(text);
}

/** The reader of the output, such as `head`, or the terminal has gone. A command that is under way is completed. */
function ignoreClosedOutput(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
}

/** An error of the operating system is not a bug: its message names the cause and the path. */
function formatError(error: Error): string {
  const isExpected = error instanceof BursarError || fileSystemErrorCode(error) !== undefined;
  return isExpected ? error.message : (error.stack ?? error.message);
}

/** Defines all commands. Each imports its code when it runs, so that help does not load the server. */
function buildProgram(): Command {
  const readConfig = () => loadConfig(process.env);
  const program = new Command('bursar')
    .description('Job submission and quota accounting in front of HPC systems.')
    .version(version)
    .exitOverride()
    .configureOutput({ writeErr: writeError })
    .showHelpAfterError('(run with --help for usage)')
    .addHelpText(
      'after',
      `
Environment:
  BURSAR_CONFIG  configuration file (YAML); default: the shipped config/bursar.yaml
  BURSAR_HOST    address to listen on
  BURSAR_PORT    port to listen on
  BURSAR_DATA    folder for all data that Bursar stores
  BURSAR_DATABASE_URL  database: sqlite:<file> or postgres://…

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration, 4 not found, 5 data folder in use`,
    );

  program
    .command('serve')
    .description('run the server until SIGTERM, SIGINT or SIGHUP')
    .addOption(
      new Option(
        '--role <role>',
        'for several servers on one PostgreSQL: answer requests (api), run jobs (worker), or both (all)',
      )
        .choices(['all', 'api', 'worker'])
        .default('all'),
    )
    .option('--stop-with-parent', 'stop when the process that started the server ends, as "npm start" needs', false)
    .action(async (options) => (await import('./serve.ts')).serve(readConfig(), options, version));

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
    .option(...actorOption)
    .action(async (options) => (await import('./token.ts')).createToken(readConfig(), options));
  token
    .command('list')
    .description('list tokens, without their secrets, which are not stored')
    .option('--user <number>', 'only the tokens of this user')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./token.ts')).printTokens(readConfig(), options));
  token
    .command('revoke')
    .description('revoke a token at once')
    .argument('<id>', 'number of the token, as shown by "token list"')
    .requiredOption('--reason <text>', 'why; recorded permanently in the audit trail')
    .option(...actorOption)
    .action(async (id: string, options) => (await import('./token.ts')).revoke(readConfig(), id, options));

  userCommands(program, readConfig);
  auditCommands(program, readConfig);
  ledgerCommands(program, readConfig);
  databaseCommands(program, readConfig);

  program
    .command('doctor')
    .description('check the database and each system, up to a real test job; prints how to fix each problem')
    .option('--system <name>', 'check only this system')
    .option('--no-canary', 'do not submit a test job')
    .option('--patience <seconds>', 'maximum time for the test job', '120')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./doctor.ts')).doctor(readConfig(), options));

  const configCommand = program.command('config').description('check and print the configuration');
  configCommand
    .command('check')
    .description('validate the effective configuration')
    .action(() => {
      const systems = Object.keys(readConfig().systems).join(', ');
      process.stdout.write(`The configuration is valid. Systems: ${systems}.\n`);
    });
  configCommand
    .command('print')
    .description('print the effective configuration as YAML, with secrets hidden')
    .option('--json', 'print JSON', false)
    .action(({ json }) => void process.stdout.write(formatConfig(readConfig(), json ? 'json' : 'yaml')));
  return program;
}

function userCommands(program: Command, readConfig: () => Config): void {
  const user = program
    .command('user')
    .description('list users, change their roles, disable and enable them, sign them in');
  user
    .command('list')
    .description('list all users with their roles')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./user.ts')).listUsers(readConfig(), options));
  user
    .command('show')
    .description('print one user as JSON')
    .argument('<number>', 'user identifier, such as 301330')
    .action(async (id: string) => (await import('./user.ts')).showUser(readConfig(), id));
  const change = (name: string, description: string) =>
    user
      .command(name)
      .description(description)
      .argument('<number>', 'user identifier, such as 301330')
      .requiredOption('--reason <text>', 'why; recorded permanently in the audit trail')
      .option(...actorOption);
  for (const action of ['disable', 'enable'] as const) {
    const description = action === 'disable' ? 'refuse all requests of a user at once' : 'enable a user again';
    change(action, description).action(async (id: string, options) =>
      (await import('./user.ts')).setEnabled(readConfig(), action, id, options),
    );
  }
  change('role', 'change the role of a user')
    .argument('<role>', 'user, auditor, operator or administrator')
    .action(async (id: string, role: string, options) =>
      (await import('./user.ts')).setRole(readConfig(), id, role, options),
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
      .requiredOption('--issuer <url>', 'issuer, as in auth.oidc')
      .requiredOption('--subject <text>', 'subject at the issuer: the claim "sub"')
      .requiredOption('--reason <text>', 'why; recorded permanently in the audit trail')
      .option('--actor <name>', 'name to record in the audit trail', process.env.USER ?? 'operator')
      .action(async (options) => (await import('./user.ts')).link(readConfig(), action, options));
  }
  const signIn = (name: string, description: string) =>
    user
      .command(name)
      .description(description)
      .requiredOption('--user <number>', 'user identifier, such as 301330')
      .option('--actor <name>', 'name to record in the audit trail', process.env.USER ?? 'operator');
  signIn('sign-in-link', 'print a link with which a user can sign in once, within 10 minutes').action(async (options) =>
    (await import('./sign-in.ts')).printSignInLink(readConfig(), options),
  );
  signIn('confirm', 'confirm the code that a program shows, so that it gets a token of the user')
    .argument('<code>', 'the code, such as WDJB-MJHT')
    .option('--deny', 'refuse the program instead', false)
    .action(async (code: string, options) => (await import('./sign-in.ts')).confirmDevice(readConfig(), code, options));
}

function auditCommands(program: Command, readConfig: () => Config): void {
  program
    .command('audit')
    .description('check the audit trail')
    .command('verify')
    .description('compute the hashes of all records again; fails if a record was changed, inserted or removed')
    .option('--contains <hash>', 'a hash that was printed earlier; fails if the audit trail no longer contains it')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./audit.ts')).verify(readConfig(), options));
}

function ledgerCommands(program: Command, readConfig: () => Config): void {
  const projectArgument = ['<project>', 'system and project, such as hpc_one/proj_hpc_one_01'] as const;
  const adminAction = (name: string, description: string) =>
    program
      .command(name)
      .description(description)
      .argument(...projectArgument)
      .requiredOption('--reason <text>', 'why; recorded permanently in the ledger')
      .option('--actor <name>', 'name to record in the ledger', process.env.USER ?? 'operator')
      .option('--key <text>', 'idempotency key; repeating a command with the same key has no effect');
  adminAction('grant', 'increase or reduce the quota of a member, or the reserve of a project')
    .option('--user <number>', 'the member (default: the reserve of the project)')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .option('--withdraw', 'reduce instead of increase', false)
    .option('--from-pool', 'take it from (or return it to) the reserve of the project', false)
    .action(async (project: string, options) => (await import('./ledger.ts')).grant(readConfig(), project, options));
  adminAction('transfer', 'move quota from one member of a project to another')
    .requiredOption('--from <number>', 'the member to take it from')
    .requiredOption('--to <number>', 'the member to give it to')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .action(async (project: string, options) => (await import('./ledger.ts')).transfer(readConfig(), project, options));
  adminAction('refund', 'refund time that a job was charged')
    .requiredOption('--job <job_id>', 'identifier of the job')
    .requiredOption('--time <seconds>', 'seconds to refund, at most the charge')
    .action(async (project: string, options) => (await import('./ledger.ts')).refund(readConfig(), project, options));
  program
    .command('ledger')
    .description('check the ledger')
    .command('verify')
    .description('recompute every balance from its entries; fails if one is wrong')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./ledger.ts')).verify(readConfig(), options));
}

function databaseCommands(program: Command, readConfig: () => Config): void {
  const db = program.command('db').description('manage the database');
  db.command('status')
    .description('show its location, the state of its schema, and its row counts')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./db.ts')).printStatus(readConfig(), options));
  db.command('migrate')
    .description('apply pending migrations, as the next start would')
    .action(async () => (await import('./db.ts')).migrateDatabase(readConfig()));
  db.command('backup')
    .description('write a consistent copy to a file; the server may be running')
    .argument('<file>', 'a new file; the format is the same for SQLite and PostgreSQL')
    .action(async (file: string) => (await import('./db.ts')).backUp(readConfig(), file));
  db.command('restore')
    .description('restore a backup of either database to an empty one')
    .argument('<file>', 'a file written by "db backup"')
    .action(async (file: string) => (await import('./db.ts')).restore(readConfig(), file));
  db.command('copy')
    .description('copy one database to an empty one; stop the server first')
    .requiredOption('--from <url>', 'such as sqlite:bursar.db')
    .requiredOption('--to <url>', 'such as postgres://user:password@host/bursar')
    .action(async (options) => (await import('./db.ts')).copyDatabase(readConfig(), options));
}
