import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { loadConfig } from '../config/load.ts';
import { BursarError } from '../domain/errors.ts';
import { checkConfiguration, showConfiguration } from './config.ts';
import { exitCodeOf } from './exit-codes.ts';
import { serve } from './serve.ts';
import { createToken, revoke, showTokens } from './token.ts';

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

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration, 4 not found, 5 data folder in use`,
    );

  program
    .command('serve')
    .description('serve until SIGTERM or SIGINT')
    .action(() => serve(config(), version));

  const token = program.command('token').description('create, list and revoke access tokens');
  token
    .command('create')
    .description('create a token, and its user where unknown; prints the token alone')
    .requiredOption('--user <number>', 'user identifier, such as 301330')
    .option('--admin', 'make the user an administrator, and the token one that may act as such', false)
    .option('--name <name>', 'a name to recognise the token by', '')
    .option('--expires <duration>', 'how long it is valid, such as 12h, 30d or 52w (default: for ever)')
    .action((options) => createToken(config(), options));
  token
    .command('list')
    .description('list tokens; the tokens themselves are not kept')
    .option('--user <number>', 'only those of one user')
    .option('--json', 'as JSON', false)
    .action((options) => showTokens(config(), options));
  token
    .command('revoke')
    .description('make a token invalid at once')
    .argument('<id>', 'the number that "token list" shows')
    .action((id: string) => revoke(config(), id));

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
