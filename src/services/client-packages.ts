import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../domain/errors.ts';
import type { ServiceDeps } from './service-deps.ts';

export interface ClientPackage {
  name: string;
  content: Buffer;
  sha256: string;
}

type ClientPackageDeps = Pick<ServiceDeps, 'clientsFolder'>;

/**
 * The programs and libraries for users that were built together with this server, so that their versions match. They are
 * read when they are requested: that is rare, and they are small. There are none if newer builds have replaced them.
 */
export async function listClientPackages({ clientsFolder }: ClientPackageDeps): Promise<ClientPackage[]> {
  if (clientsFolder === null || !existsSync(clientsFolder)) return [];
  const names = (await readdir(clientsFolder)).sort();
  return await Promise.all(
    names.map(async (name) => {
      const content = await readFile(join(clientsFolder, name));
      return { name, content, sha256: hash('sha256', content) };
    }),
  );
}

/** Throws if there is no package with this name. */
export async function readClientPackage(deps: ClientPackageDeps, name: string): Promise<ClientPackage> {
  const packages = await listClientPackages(deps);
  const found = packages.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = packages.map((each) => each.name).join(', ') || 'none, because its build is missing: restart it';
  throw new BursarError('file_unknown', `This server has no client with this name. It has: ${names}.`);
}
