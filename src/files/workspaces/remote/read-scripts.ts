import { maxFolderDepth } from '../../safe-paths.ts';
import type { LinkedFile } from '../hard-links.ts';
import { clampTimeMs } from '../workspace-reader.ts';

/**
 * POSIX shell scripts that read workspaces on their host. A shell cannot open files without following links. Therefore a
 * script checks the real location of a folder or file after opening it, with `pwd -P` and /proc, which later changes to
 * the names cannot affect. Anything whose location differs from its path is treated as absent.
 *
 * A script prints the line `-` if the folder or file is absent. `echo .` protects trailing newlines in names, which
 * command substitution would remove.
 */
const enterFolder = `
export LC_ALL=C
absent() { echo -; exit 0; }
root=$(cd -P -- "$1" 2>/dev/null && pwd -P && echo .) || absent
root=\${root%??}
cd -P -- "$1/$2" 2>/dev/null || absent
here=$(pwd -P && echo .) || absent
here=\${here%??}
[ "$here" = "$root/$2" ] || absent`;

const script = (...lines: string[]) => [enterFolder, ...lines].join('\n');

/** Arguments: root, folder below it. Output: the line `+`. */
export const enterScript = script('echo +');

/**
 * Arguments: root, folder below it, file name, offset, maximum number of bytes.
 * Output: a line with inode, size, modification and change time, number of hard links, number of those inside the
 * workspace, and the current time; then the bytes.
 */
export const readScript = script(
  '[ -f "./$3" ] && [ ! -L "./$3" ] || absent',
  'command exec 3<"./$3" 2>/dev/null || absent',
  'target=$(readlink -n /proc/self/fd/3 && echo .) || absent',
  `[ "\${target%.}" = "$here/$3" ] && [ -f /proc/self/fd/3 ] || absent`,
  `set -- "$1" "\${2%%/*}" "$4" "$5" $(stat -L -c "%i %s %.9Y %.9Z %h" /proc/self/fd/3)`,
  'inside=$9',
  'if [ "$9" -gt 1 ]; then inside=$(find "$root/$2" -type f -inum "$5" -printf x 2>/dev/null | wc -c); fi',
  'echo "$5 $6 $7 $8 $9" $inside "$(date +%s)"',
  'if [ "$4" -gt 0 ] && [ "$3" -lt "$6" ] && [ "$inside" -eq "$9" ]; then',
  '  exec dd bs=262144 iflag=skip_bytes,count_bytes skip="$3" count="$4" status=none <&3',
  'fi',
);

/**
 * Arguments: root, folder below it.
 * Output: the line `+`, then a NUL-terminated record for each file and folder: see `parseFindOutput`.
 */
export const findScript = script(
  'echo +',
  `find . -mindepth 1 -maxdepth ${maxFolderDepth} \\( -type f -o -type d \\) -printf '%y %n %i %s %T@ %m %P\\0' 2>/dev/null`,
  'exit 0',
);

/** Like `findScript`, but only for files with several hard links. */
export const findLinkedScript = script(
  'echo +',
  `find . -type f -links +1 -printf '%y %n %i %s %T@ %m %P\\0' 2>/dev/null`,
  'exit 0',
);

/**
 * Arguments: root, folder below it.
 * Output: the line `+`, then a tar archive of the folder. tar follows no links and does not block on pipes. It truncates
 * a file that grows, pads one that shrinks, and omits one that disappears; its exit code is then 1.
 */
export const archiveScript = script(
  'echo +',
  'tar -cf - --hard-dereference --ignore-failed-read . 2>/dev/null',
  '[ $? -le 1 ]',
);

/** A file or folder that find(1) printed. */
export interface FindRecord extends LinkedFile {
  kind: 'file' | 'folder';
  size: number;
  modifiedAt: number;
  mode: number;
  path: string;
}

/** Parses NUL-terminated records, as printed by `findScript`. */
export async function* parseFindOutput(output: AsyncIterable<Buffer>): AsyncGenerator<FindRecord> {
  let buffered = Buffer.alloc(0);
  for await (const chunk of output) {
    buffered = Buffer.concat([buffered, chunk]);
    for (let end = buffered.indexOf(0); end !== -1; end = buffered.indexOf(0)) {
      yield parseRecord(buffered.toString('utf8', 0, end));
      buffered = buffered.subarray(end + 1);
    }
  }
}

/** Parses type, links, inode, size, modification time, mode and path: `f 1 4711 12 1794712926.1234567890 644 data/in` */
function parseRecord(text: string): FindRecord {
  const [, type, links, id = '', size, seconds, mode = '', path = ''] =
    /^(\S) (\d+) (\d+) (\d+) (-?[\d.]+) (\d+) ([\s\S]*)$/.exec(text) ?? [];
  if (type === undefined) throw new Error(`unexpected output of find: ${text.slice(0, 100)}`);
  return {
    kind: type === 'd' ? 'folder' : 'file',
    id,
    links: Number(links),
    size: Number(size),
    modifiedAt: clampTimeMs(Number(seconds) * 1000),
    mode: Number.parseInt(mode, 8) & 0o777,
    path,
  };
}
