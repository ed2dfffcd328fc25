import type { Command } from 'commander';

/** Adds a users' command. Every one can print JSON: the objects of the API. */
export function userCommand(parent: Command, nameAndArguments: string, description: string): Command {
  return parent
    .command(nameAndArguments)
    .description(description)
    .option('--json', 'print the objects of the API as JSON')
    .configureHelp({ showGlobalOptions: true });
}

/** For options that may be repeated. */
export const collect = (value: string, earlier: string[] = []): string[] => [...earlier, value];

/** Parses the name of a system. Objects of the API have it in upper case, paths in lower case. */
export const systemName = (name: string): string => name.toLowerCase();
