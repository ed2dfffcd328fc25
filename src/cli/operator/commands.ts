import { type Command, Option } from 'commander';
import type { StartOptions } from '../../main.ts';
import { accountCommands } from './accounts/account-commands.ts';
import type { Operator } from './operator.ts';

const helpHeading = 'For operators (on the host of the server):';

/** Adds the commands that work on the configuration and the database of a server. Each imports its code when it runs. */
export function addOperatorCommands(
  program: Command,
  operator: Operator,
  version: string,
  startOptions?: StartOptions,
): void {
  const earlier = new Set(program.commands);
  serverCommands(program, operator, version, startOptions);
  backupCommands(program, operator);
  databaseCommands(program, operator);
  accountCommands(program, operator);
  auditCommands(program, operator);
  ledgerCommands(program, operator);
  for (const command of program.commands.filter((added) => !earlier.has(added))) {
    command.helpGroup(helpHeading);
    // Nobody else may read what the server writes. Jobs of other accounts than its own do not read it either.
    command.hook('preAction', operator.protectFiles);
  }
}

function serverCommands(program: Command, operator: Operator, version: string, startOptions?: StartOptions): void {
  program
    .command('serve')
    .description('run the server until SIGTERM or SIGINT; SIGHUP opens the log file and the certificate anew')
    .addOption(
      new Option(
        '--role <role>',
        'for several servers on one PostgreSQL: answer requests (api), run jobs (worker), or both (all)',
      )
        .choices(['all', 'api', 'worker'])
        .default('all'),
    )
    .option('--stop-with-parent', 'stop when the process that started the server ends, as "npm start" needs', false)
    .action(async (options) =>
      (await import('./server/serve.ts')).serve(await operator.context(), options, version, startOptions),
    );

  program
    .command('doctor')
    .description('check the database and each system, up to a real test job; prints how to fix each problem')
    .option('--system <name>', 'check only this system')
    .option('--no-canary', 'do not submit a test job')
    .option('--timeout <seconds>', 'maximum time for the test job', '120')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./support/doctor.ts')).doctor(await operator.context(), options));

  program
    .command('support-bundle')
    .description('write an archive for those who help with a problem; it has no secrets and no data of users')
    .option('--out <file>', 'a new file (default: a name with the time)')
    .option('--url <url>', 'address of the running server (default: the one of the configuration)')
    .action(async (options) =>
      (await import('./support/support-bundle.ts')).writeSupportBundle(await operator.context(), options, version),
    );

  const configCommand = program.command('config').description('check and print the configuration');
  configCommand
    .command('check')
    .description('validate the effective configuration')
    .action(async () => {
      const { config, print } = await operator.context();
      print(`The configuration is valid. Systems: ${Object.keys(config.systems).join(', ')}.\n`);
    });
  configCommand
    .command('print')
    .description('print the effective configuration as YAML, with secrets hidden')
    .option('--json', 'print JSON', false)
    .action(async ({ json }) => {
      const { config, print } = await operator.context();
      const { formatConfig } = await import('../../config/format.ts');
      print(formatConfig(config, json ? 'json' : 'yaml'));
    });
}

function auditCommands(program: Command, operator: Operator): void {
  program
    .command('audit')
    .description('check the audit trail')
    .command('verify')
    .description('compute the hashes of all records again; fails if a record was changed, inserted or removed')
    .option('--contains <hash>', 'a hash that was printed earlier; fails if the audit trail no longer contains it')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./audit.ts')).verify(await operator.context(), options));
}

function ledgerCommands(program: Command, operator: Operator): void {
  const projectArgument = ['<project>', 'system and project, such as hpc_one/proj_hpc_one_01'] as const;
  const adminAction = (name: string, description: string) =>
    program
      .command(name)
      .description(description)
      .argument(...projectArgument)
      .requiredOption('--reason <text>', 'why; recorded permanently in the ledger')
      .option('--actor <name>', 'name to record in the ledger', operator.name)
      .option('--key <text>', 'idempotency key; repeating a command with the same key has no effect');
  adminAction('grant', 'increase or reduce the quota of a member, or the reserve of a project')
    .option('--user <number>', 'the member (default: the reserve of the project)')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .option('--withdraw', 'reduce instead of increase', false)
    .option('--from-pool', 'take it from (or return it to) the reserve of the project', false)
    .action(async (project: string, options) =>
      (await import('./ledger.ts')).grant(await operator.context(), project, options),
    );
  adminAction('transfer', 'move quota from one member of a project to another')
    .requiredOption('--from <number>', 'the member to take it from')
    .requiredOption('--to <number>', 'the member to give it to')
    .option('--time <seconds>', 'seconds of the charging unit')
    .option('--space <kb>', 'KB of space')
    .action(async (project: string, options) =>
      (await import('./ledger.ts')).transfer(await operator.context(), project, options),
    );
  adminAction('refund', 'refund time that a job was charged')
    .requiredOption('--job <job_id>', 'identifier of the job')
    .requiredOption('--time <seconds>', 'seconds to refund, at most the charge')
    .action(async (project: string, options) =>
      (await import('./ledger.ts')).refund(await operator.context(), project, options),
    );
  program
    .command('ledger')
    .description('check the ledger')
    .command('verify')
    .description('recompute every balance from its entries; fails if one is wrong')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./ledger.ts')).verify(await operator.context(), options));
}

function backupCommands(program: Command, operator: Operator): void {
  program
    .command('backup')
    .description('back up the database and the zips of waiting jobs, and verify the copy; the server may be running')
    .argument('[folder]', 'a new folder')
    .option('--folder <folder>', 'write to a new folder in this one, named after the time')
    .option('--keep <number>', 'with --folder: then remove all but this many of the newest backups')
    .action(async (path: string | undefined, options) =>
      (await import('./database/backup.ts')).backUp(await operator.context(), { ...options, path }),
    );
  program
    .command('restore')
    .description('restore a backup of the database and of the zips of waiting jobs; the database must be empty')
    .argument('<folder>', 'a folder written by "bursar backup"')
    .action(async (folder: string) => (await import('./database/backup.ts')).restore(await operator.context(), folder));
}

function databaseCommands(program: Command, operator: Operator): void {
  const db = program.command('db').description('manage the database');
  db.command('status')
    .description('show its location, the state of its schema, and its row counts')
    .option('--json', 'print JSON', false)
    .action(async (options) => (await import('./database/db.ts')).printStatus(await operator.context(), options));
  db.command('migrate')
    .description('apply pending migrations, as the next start would')
    .action(async () => (await import('./database/db.ts')).migrateDatabase(await operator.context()));
  db.command('backup')
    .description('write a consistent copy of the database to a file; the server may be running')
    .argument('[file]', 'a new file; the format is the same for SQLite and PostgreSQL')
    .option('--verify', 'restore the copy to a temporary database, and compare every row', false)
    .option('--folder <folder>', 'write to a new file in this folder, named after the time')
    .option('--keep <number>', 'with --folder: verify the new file, then remove all but this many of the newest')
    .action(async (path: string | undefined, options) =>
      (await import('./database/db-backup.ts')).backUpDatabase(await operator.context(), { ...options, path }),
    );
  db.command('verify')
    .description('prove that a backup can be restored: to a temporary database beside it')
    .argument('<file>', 'a file written by "db backup"')
    .action(async (file: string) => (await import('./database/db-backup.ts')).verifyBackup(operator.output, file));
  db.command('restore')
    .description('restore a backup of either database to an empty one')
    .argument('<file>', 'a file written by "db backup"')
    .action(async (file: string) =>
      (await import('./database/db-backup.ts')).restoreDatabase(await operator.context(), file),
    );
  db.command('copy')
    .description('copy one database to an empty one; stop the server first')
    .requiredOption('--from <url>', 'such as sqlite:bursar.db')
    .requiredOption('--to <url>', 'such as postgres://user:password@host/bursar')
    .action(async (options) => (await import('./database/db.ts')).copyDatabase(await operator.context(), options));
}
