#!/usr/bin/env node
// Plain JavaScript, so that an old Node can run it and report that it is too old. Everything else is TypeScript, which
// Node runs directly if it has not been built. `npm start` passes --max-semi-space-size=4 to Node, which limits the memory
// that V8 reserves for new objects: without it a server at rest takes 10 MB more, and is hardly faster.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildFolder } from './build-folder.mjs';
import { describeOldNode } from './node-version.mjs';

const problem = describeOldNode();
if (problem !== undefined) {
  console.error(problem);
  process.exit(1);
}
// The SQLite driver requests a process report, which would otherwise do a reverse DNS lookup of every network address.
process.report.excludeNetwork = true;
const builtProgram = join(buildFolder(), 'program.cjs');
const { runCommandLine } = existsSync(builtProgram)
  ? (await import('./load-program.mjs')).loadProgram(builtProgram, process.argv[2])
  : await import('../src/cli/program.ts');
await runCommandLine(process);
