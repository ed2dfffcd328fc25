import { maxFolderDepth } from '../../safe-paths.ts';

/**
 * How files of a workspace are read where they are. A shell can open nothing without following links, so it looks
 * afterwards where it has got to: `pwd -P` and /proc tell the real place of an open folder or file, whatever has been
 * done to the names on the way since. What is not where its path says is as if it were not there.
 *
 * Each answers `-` on a line of its own where there is nothing; names come with a dot behind them, as the shell drops
 * line ends that a name may have.
 */
const place = `
export LC_ALL=C
absent() { echo -; exit 0; }
root=$(cd -P -- "$1" 2>/dev/null && pwd -P && echo .) || absent
root=\${root%??}
cd -P -- "$1/$2" 2>/dev/null || absent
here=$(pwd -P && echo .) || absent
here=\${here%??}
[ "$here" = "$root/$2" ] || absent`;

const script = (...lines: string[]) => [place, ...lines].join('\n');

/**
 * root, folder below it, name of a file in it, offset, most bytes → a line with the file's number, size, times, names,
 * how many of them are in the workspace, and the time now; then the bytes.
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

/** root, folder below it → `+` on a line, then for all in it a record that ends with a NUL: see `parseRecord`. */
export const findScript = script(
  'echo +',
  `find . -mindepth 1 -maxdepth ${maxFolderDepth} \\( -type f -o -type d \\) -printf '%y %n %i %s %T@ %m %P\\0' 2>/dev/null`,
  'exit 0',
);

/** root, folder below it → the same for its files with several names. */
export const linkedScript = script(
  'echo +',
  `find . -type f -links +1 -printf '%y %n %i %s %T@ %m %P\\0' 2>/dev/null`,
  'exit 0',
);

/**
 * root, folder below it → `+` on a line, then an archive of all in it. tar follows no links and waits for no pipes; a
 * file that grows is cut, one that shrinks is filled up, one that vanishes is left out, and then its code is 1.
 */
export const archiveScript = script(
  'echo +',
  'tar -cf - --hard-dereference --ignore-failed-read . 2>/dev/null',
  '[ $? -le 1 ]',
);
