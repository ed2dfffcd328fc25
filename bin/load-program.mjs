import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { Script } from 'node:vm';

/** By then even a slow host has started a server. V8 keeps the functions that only the start needs for much longer. */
const saveAfterMs = 10_000;

/**
 * Loads the built program with the functions that V8 compiled when the same command ran before. Node's own cache has only
 * those that are compiled before a module runs. All others, thousands of them, would be compiled again at every start.
 */
export function loadProgram(file, command) {
  // The build has ASCII only.
  const source = readFileSync(file, 'latin1');
  const cacheFile = findCacheFile(file, command);
  const script = new Script(source, { filename: file, cachedData: readCache(cacheFile, source) });
  if (script.cachedDataRejected !== false) saveLater(() => writeCache(cacheFile, source, script.createCachedData()));
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(file), module, file);
  return module.exports;
}

/**
 * One file for each installation, command, version of Node and processor, so that builds do not add up. Its folder is not in
 * /tmp, where another user could have prepared it: V8 does not check what compiled functions do.
 */
function findCacheFile(file, command) {
  const { NODE_COMPILE_CACHE, CACHE_DIRECTORY, XDG_CACHE_HOME } = process.env;
  const userFolder = join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'bursar');
  // systemd sets CACHE_DIRECTORY.
  const folder = NODE_COMPILE_CACHE || CACHE_DIRECTORY || userFolder;
  const installation = encodeURIComponent(dirname(dirname(file)));
  const name = /^[a-z-]{1,32}$/.test(command) ? command : 'other';
  return join(folder, 'compiled', `${installation}-${process.version}-${process.arch}-${name}`);
}

/** Of SHA-256. */
const hashBytes = 32;

/** V8 compares only the length of the source, and could crash on damaged functions. So the file begins with a hash of both. */
function hashOf(source, functions) {
  // The first line of the program is its own hash.
  return createHash('sha256')
    .update(source.slice(0, source.indexOf('\n')))
    .update(functions)
    .digest();
}

/** Returns undefined if there is no file, or not one of this program. */
function readCache(cacheFile, source) {
  try {
    const content = readFileSync(cacheFile);
    const functions = content.subarray(hashBytes);
    return hashOf(source, functions).equals(content.subarray(0, hashBytes)) ? functions : undefined;
  } catch {
    return undefined;
  }
}

/** Saves when the command has succeeded, or while it runs on. */
function saveLater(save) {
  const onExit = (code) => code === 0 && save();
  process.once('exit', onExit);
  const timer = setTimeout(() => {
    process.off('exit', onExit);
    save();
  }, saveAfterMs);
  timer.unref();
}

/** Not synced, which could stop a server for a moment: a file that a power failure has damaged is not used. */
function writeCache(cacheFile, source, functions) {
  const temporary = `${cacheFile}.${process.pid}`;
  try {
    mkdirSync(dirname(cacheFile), { recursive: true, mode: 0o700 });
    writeFileSync(temporary, Buffer.concat([hashOf(source, functions), functions]), { mode: 0o600 });
    renameSync(temporary, cacheFile);
  } catch {
    // Such as a full disk: the next start is slower.
  }
}
