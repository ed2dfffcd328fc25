#!/usr/bin/env node
// Plain JavaScript, so that any Node can say what is wrong. The rest is TypeScript, which Node runs as it is where it
// was not built.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { builtFrom } from './built.mjs';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `Bursar needs Node 22.18 or newer, and this is ${process.versions.node}. ` +
      'Start it with "npm start" or "npm run -s bursar -- …": they bring a Node of their own.',
  );
  process.exit(1);
}
// Compiled code is kept between runs: it halves the time to start.
const { enableCompileCache } = await import('node:module');
enableCompileCache();
// The driver of SQLite asks for a report on this process, which would look up the name of every address it is known by.
process.report.excludeNetwork = true;
const built = join(builtFrom(), 'program.js');
const { runCommandLine } = await import(existsSync(built) ? built : '../src/cli/program.ts');
await runCommandLine(process.argv);
