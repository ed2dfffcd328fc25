import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Config } from '../../src/config/schema.ts';

/** The configuration that Bursar is shipped with, as it stands in its file, to be changed for a test. */
export function shippedConfig(): Config {
  return parse(readFileSync(new URL('../../config/bursar.yaml', import.meta.url), 'utf8')) as Config;
}
