// Plain JavaScript for old versions of Node: this file reports that they are too old.
import { readFileSync } from 'node:fs';
import { isRelease } from './build-folder.mjs';

const { optionalDependencies } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

/**
 * Whether `npm ci` installs a Node for this platform. It installs none on Apple silicon, for example.
 *
 * @param {{ platform: string, arch: string }} host
 */
export function hasPinnedNode({ platform, arch } = process) {
  return optionalDependencies[`node-${platform}-${arch}`] !== undefined;
}

/**
 * Explains why this Node cannot run Bursar and what to do; undefined if it can.
 *
 * @param {{ versions: { node: string }, platform: string, arch: string }} host
 */
export function describeOldNode({ versions, platform, arch } = process) {
  const [major, minor] = versions.node.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return undefined;
  const problem = `Bursar needs Node 22.18 or newer; this is Node ${versions.node}.`;
  if (hasPinnedNode({ platform, arch })) {
    if (isRelease) return `${problem} Install Bursar again without --omit=optional, which brings a suitable Node.`;
    return `${problem} Use "npm start" or "npm run -s bursar -- …", which install a suitable Node.`;
  }
  return `${problem} npm installs no Node for ${platform} ${arch}: install Node 24 yourself (https://nodejs.org) and repeat the command.`;
}
