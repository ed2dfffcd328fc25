import { chmod, chown, lchown, lstat, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

interface Owner {
  uid: number;
  gid: number;
}

/**
 * Makes another account the owner of the job's folders and of everything in them. It can be called again after a failure.
 * The account may enter the two folders that contain them, not list them. No other account may enter that of the job: it could
 * read what the job makes readable for everybody, and hand the job an open folder of the host through a socket in it.
 */
export async function giveWorkspace(directory: string, temporaryFolder: string, owner: Owner): Promise<void> {
  const jobFolder = dirname(directory);
  await chmod(dirname(jobFolder), 0o711);
  await chown(jobFolder, 0, owner.gid);
  await chmod(jobFolder, 0o710);
  for (const folder of [temporaryFolder, directory]) {
    // Other jobs of the account run. Until the folder belongs to the account, none of them can enter it and swap in links.
    if ((await lstat(folder)).uid === owner.uid) continue;
    await chmod(folder, 0o700);
    await giveContent(folder, owner);
    await lchown(folder, owner.uid, owner.gid);
  }
}

async function giveContent(folder: string, owner: Owner): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await giveContent(path, owner);
    await lchown(path, owner.uid, owner.gid);
  }
}
