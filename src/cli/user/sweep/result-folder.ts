import { createHash } from 'node:crypto';
import type { Combination } from '../submit/parameters.ts';

const maxNameLength = 120;

/** The name of the folder for the results of a combination: `a=1,b=0.5`. Differs for different combinations. */
export function resultFolderName(combination: Combination): string {
  const text = Object.entries(combination)
    .map(([name, value]) => `${name}=${value}`)
    .join(',');
  const name = text.replace(/[^\p{L}\p{N}_.,=+-]/gu, '_').slice(0, maxNameLength);
  if (name === text) return name;
  return `${name}-${createHash('sha256').update(text).digest('hex').slice(0, 8)}`;
}
