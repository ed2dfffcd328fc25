import type { Command } from 'commander';

/** Adds the commands that submit jobs. */
export function submitCommands(_program: Command): void {}
