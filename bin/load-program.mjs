import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { Script } from 'node:vm';

/** The first line of the program is a comment with its hash. */
const hashLength = 64;

/** By then even a slow host has started a server. V8 keeps the functions that only the start needs for much longer. */
const saveAfterMs = 10_000;

/**
 * Loads the built program with the functions that V8 compiled when the same command ran before. Node's own cache has only
 * those that are compiled before a module runs. All others, thousands of them, would be compiled again at every start.
 */
export function loadProgram(file, command) {
  // The build has ASCII only.
  const source = readFileSync(file, 'latin1');
  const hash = source.slice(2, 2 + hashLength);
  const cacheFile = findCacheFile(file, command);
  const cachedData = readCache(cacheFile, hash);
  const script = new Script(source, { filename: file, cachedData });
  if (script.cachedDataRejected !== false) saveLater(() => writeCache(cacheFile, hash, script.createCachedData()));
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

function readCache(cacheFile, hash) {
  try {
    const content = readFileSync(cacheFile);
    return content.latin1Slice(0, hashLength) === hash ? content.subarray(hashLength) : undefined;
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

/** V8 could crash on a part of a file, and other processes may write the same one. */
function writeCache(cacheFile, hash, data) {
  const temporary = `${cacheFile}.${process.pid}`;
  try {
    mkdirSync(dirname(cacheFile), { recursive: true, mode: 0o700 });
    const file = openSync(temporary, 'wx', 0o600);
    writeSync(file, Buffer.concat([Buffer.from(hash), data]));
    fsyncSync(file);
    closeSync(file);
    renameSync(temporary, cacheFile);
  } catch {
    // Such as a full disk: the next start is slower.
  }
}
