import type { Config } from '../../config/schema.ts';

/** Reads the configuration of the server. Its code is imported when a command needs it, because it is large. */
export const readConfig = async (): Promise<Config> => (await import('../../config/load.ts')).loadConfig(process.env);
