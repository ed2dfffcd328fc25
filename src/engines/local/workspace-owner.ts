import { chmod, lchown, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * Makes another account the owner of the job's folders and of everything in them. The job must not run yet: links in the
 * folders are not followed, but a running job could swap one in. The account may enter the two folders that
 * contain them, not list them.
 */
export async function giveWorkspace(
  directory: string,
  temporaryFolder: string,
  owner: { uid: number; gid: number },
): Promise<void> {
  for (const folder of [dirname(dirname(directory)), dirname(directory)]) await chmod(folder, 0o711);
  await giveTree(temporaryFolder, owner);
  await giveTree(directory, owner);
}

async function giveTree(folder: string, owner: { uid: number; gid: number }): Promise<void> {
  await lchown(folder, owner.uid, owner.gid);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await giveTree(path, owner);
    else await lchown(path, owner.uid, owner.gid);
  }
}
