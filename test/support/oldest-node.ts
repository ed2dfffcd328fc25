import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildFolder } from '../../bin/build-folder.mjs';

const packages = fileURLToPath(new URL('../oldest-node/node_modules/', import.meta.url));
const installed = join(packages, `node-${process.platform}-${process.arch}`, 'bin/node');

/**
 * The oldest Node that the users' command line and the TypeScript client support: 20.15.0 on Linux x64. For other platforms
 * npm has no 20.15, so it is the next release that npm has, and on those without any it is the Node of the tests.
 */
export const oldestNode = existsSync(installed) ? installed : process.execPath;

/** The users' command line as the server offers it: one file. */
export const userProgram = join(buildFolder(), 'clients/bursar.mjs');
