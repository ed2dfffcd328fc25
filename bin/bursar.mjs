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
// Caching compiled code between runs halves the startup time.
const { enableCompileCache } = await import('node:module');
enableCompileCache();
// The SQLite driver requests a process report, which would otherwise do a reverse DNS lookup of every network address.
process.report.excludeNetwork = true;
const builtProgram = join(buildFolder(), 'program.mjs');
const { runCommandLine } = await import(existsSync(builtProgram) ? builtProgram : '../src/cli/program.ts');
await runCommandLine(process);
