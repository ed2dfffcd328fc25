import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { checkConfiguration, showConfiguration } from './config.ts';
import { exitCodeOf } from './exit-codes.ts';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** Runs one command. Results go to standard output, everything else to standard error. */
export async function runCommandLine(argv: string[]): Promise<void> {
  try {
    await buildProgram().parseAsync(argv);
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      process.stderr.write(`${error instanceof BursarError ? error.message : (error as Error).stack}\n`);
    }
    process.exitCode = exitCodeOf(error);
  }
}

/** What a command needs is loaded when it runs: help must not wait for the server's parts. */
function buildProgram(): Command {
  const config = () => loadConfig(process.env);
  const program = new Command('bursar')
    .description('Job submission and quota accounting in front of HPC systems.')
    .version(version)
    .exitOverride()
    .showHelpAfterError('(add --help for what is possible)')
    .addHelpText(
      'after',
      `
Environment:
  BURSAR_CONFIG  configuration file (YAML); the shipped one where it is not set
  BURSAR_HOST    address to listen on
  BURSAR_PORT    port to listen on
  BURSAR_DATA    folder for everything that Bursar keeps
  BURSAR_DATABASE_URL  where the books are kept: sqlite:<file> or postgres://…

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration, 4 not found, 5 data folder in use`,
    );

  program
    .command('serve')
    .description('serve until SIGTERM or SIGINT')
    .addOption(
      new Option('--role <role>', 'for several Bursars on one PostgreSQL: serve callers, look after systems, or both')
        .choices(['all', 'api', 'worker'])
        .default('all'),
    )
    .action(async ({ role }) => (await import('./serve.ts')).serve(config(), role, version));

  const token = program.command('token').description('create, list and revoke access tokens');
  token
    .command('create')
    .description('create a token, and its user where unknown; prints the token alone')
    .requiredOption('--user <number>', 'user identifier, such as 301330')
    .option('--admin', 'make the user an administrator, and the token one that may act as such', false)
    .option('--name <name>', 'a name to recognise the token by', '')
    .option('--expires <duration>', 'how long it is valid, such as 12h, 30d or 52w (default: for ever)')
    .action(async (options) => (await import('./token.ts')).createToken(config(), options));
  token
    .command('list')
    .description('list tokens; the tokens themselves are not kept')
    .option('--user <number>', 'only those of one user')
    .option('--json', 'as JSON', false)
    .action(async (options) => (await import('./token.ts')).showTokens(config(), options));
  token
    .command('revoke')
    .description('make a token invalid at once')
    .argument('<id>', 'the number that "token list" shows')
    .action(async (id: string) => (await import('./token.ts')).revoke(config(), id));

  ledgerCommands(program, config);
  databaseCommands(program, config);

  program
    .command('doctor')
    .description('check everything from the books to a real job on each system, with the fix beside each fault')
    .option('--system <name>', 'only one system')
    .option('--no-canary', 'send no job')
    .option('--patience <seconds>', 'how long the job may take', '120')
    .option('--json', 'as JSON', false)
    .action(async (options) => (await import('./doctor.ts')).doctor(config(), options));

  const settings = program.command('config').description('check and show the configuration');
  settings
    .command('check')
    .description('validate the configuration that is in force')
    .action(() => checkConfiguration(config()));
  settings
    .command('print')
    .description('print what is in force, with secrets hidden, as a configuration file')
    .option('--json', 'as JSON', false)
    .action((options) => showConfiguration(config(), options));
  return program;
}

function ledgerCommands(program: Command, config: () => Config): void {
  const projectArgument = ['<project>', 'system and project, such as hpc_one/proj_hpc_one_01'] as const;
  const act = (name: string, description: string) =>
    program
      .command(name)
      .description(description)
      .argument(...projectArgument)
      .requiredOption('--reason <text>', 'why; it stands in the ledger for ever')
      .option('--actor <name>', 'who does it, for the ledger', process.env.USER ?? 'operator')
      .option('--key <text>', 'a key of your choice; the same command with the same key changes nothing');
  act('grant', 'grow or shrink the quota of a member, or the reserve of a project')
    .option('--user <number>', 'the member; left out: the reserve of the project')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .option('--withdraw', 'take it away instead', false)
    .option('--from-pool', 'out of (or back into) the reserve of the project', false)
    .action(async (project: string, options) => (await import('./ledger.ts')).grant(config(), project, options));
  act('transfer', 'move a grant from one member of a project to another')
    .requiredOption('--from <number>', 'the member who gives')
    .requiredOption('--to <number>', 'the member who gets')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .action(async (project: string, options) => (await import('./ledger.ts')).transfer(config(), project, options));
  act('refund', 'give back time that a job was charged')
    .requiredOption('--job <job_id>', 'the job')
    .requiredOption('--time <seconds>', 'seconds, never more than it was charged')
    .action(async (project: string, options) => (await import('./ledger.ts')).refund(config(), project, options));
  program
    .command('ledger')
    .description('look after the books')
    .command('verify')
    .description('recompute every balance from the entries; fails when one does not add up')
    .option('--json', 'as JSON', false)
    .action(async (options) => (await import('./ledger.ts')).verify(config(), options));
}

function databaseCommands(program: Command, config: () => Config): void {
  const db = program.command('db').description('look after the database');
  db.command('status')
    .description('show where it is, whether its schema is up to date, and how much is in it')
    .option('--json', 'as JSON', false)
    .action(async (options) => (await import('./db.ts')).showStatus(config(), options));
  db.command('migrate')
    .description('bring its schema up to date, as the next start would')
    .action(async () => (await import('./db.ts')).migrateDatabase(config()));
  db.command('backup')
    .description('write everything that is in it to a file, while the service runs')
    .argument('<file>', 'a new file; the same for SQLite and PostgreSQL')
    .action(async (file: string) => (await import('./db.ts')).backUp(config(), file));
  db.command('restore')
    .description('fill an empty database from such a file, whichever it was written from')
    .argument('<file>', 'a file that "db backup" has written')
    .action(async (file: string) => (await import('./db.ts')).restore(config(), file));
  db.command('copy')
    .description('copy everything from one database to an empty one, while the service is stopped')
    .requiredOption('--from <url>', 'such as sqlite:bursar.db')
    .requiredOption('--to <url>', 'such as postgres://user:password@host/bursar')
    .action(async (options) => (await import('./db.ts')).copyDatabase(config(), options));
}
