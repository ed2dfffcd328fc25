import { type CommandLanguage, plainCommands } from '../domain/jobs/command.ts';
import { sbatchLanguage } from './slurm/sbatch-language.ts';

// The web page and the users' command line import this module, and therefore none with code of the server.
const languages: readonly CommandLanguage[] = [sbatchLanguage];

/** A client may be older than its server: of a language that it does not know, every command is a line for the shell. */
export function findCommandLanguage(name: string): CommandLanguage {
  return languages.find((language) => language.name === name) ?? plainCommands;
}
