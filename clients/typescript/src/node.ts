import { Bursar as BrowserBursar } from './bursar.ts';
import type { JobHandle } from './job.ts';
import { openInput } from './node/zip-file.ts';
import type { JobInput, SubmitOptions } from './submit.ts';

export * from './index.ts';
export { type FolderEntry, type FolderOptions, type FolderSource, InputError, openFolder } from './node/folder.ts';
export { type SaveFilesOptions, type SaveOptions, saveArchive, saveFile, saveFiles } from './node/save.ts';
export { openZip } from './node/zip-file.ts';

/** A client of one server, for one user. In Node the input of a job can also be the path of a folder or of a zip file. */
export class Bursar extends BrowserBursar {
  override async submit(options: SubmitOptions<JobInput | string>): Promise<JobHandle> {
    const { input } = options;
    return await super.submit({ ...options, input: typeof input === 'string' ? await openInput(input) : input });
  }
}
