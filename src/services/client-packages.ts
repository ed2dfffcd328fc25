import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../domain/errors.ts';

export interface ClientPackage {
  name: string;
  content: Buffer;
  sha256: string;
}

export interface ClientPackages {
  list(): Promise<ClientPackage[]>;
  /** Throws if there is no package with this name. */
  read(name: string): Promise<ClientPackage>;
}

/**
 * The programs and libraries for users that were built together with this server, so that their versions match. They are
 * read when they are requested: that is rare, and they are small. There are none if the server runs from its sources
 * (`folder` is null), or if newer builds have replaced its own.
 */
export function createClientPackages(folder: string | null): ClientPackages {
  async function list(): Promise<ClientPackage[]> {
    if (folder === null) return [];
    const names = existsSync(folder) ? (await readdir(folder)).sort() : [];
    return await Promise.all(
      names.map(async (name) => {
        const content = await readFile(join(folder, name));
        return { name, content, sha256: hash('sha256', content) };
      }),
    );
  }

  return {
    list,
    async read(name) {
      const packages = await list();
      const found = packages.find((each) => each.name === name);
      if (found !== undefined) return found;
      const names = packages.map((each) => each.name).join(', ') || 'none, because its build is missing: restart it';
      throw new BursarError('file_unknown', `This server has no client with this name. It has: ${names}.`);
    },
  };
}
