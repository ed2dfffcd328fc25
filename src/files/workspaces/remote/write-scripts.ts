import { maxUnchargedBytes } from '../../../domain/jobs/file-limits.ts';

/**
 * POSIX shell scripts that change workspaces on their host. All variable parts are arguments ($1…), never interpolated.
 * LC_ALL=C makes error messages English, which `toRemoteError` relies on.
 *
 * `erase` runs chmod only if rm fails, because visiting every file takes time.
 */
const removalFunctions = `
erase() {
  rm -rf -- "$1" 2>/dev/null && return
  chmod -R u+rwx -- "$1" 2>/dev/null
  rm -rf -- "$1"
}
remove_workspace() {
  erase "$1.removed" || return
  if [ -e "$1" ] || [ -L "$1" ]; then mv -- "$1" "$1.removed" || return; fi
  erase "$1.removed" && erase "$1.partial"
}`;

const script = (...lines: string[]) => ['export LC_ALL=C', 'umask 077', ...lines].join('\n');

/** Arguments: workspace. Deletes the workspace and everything else of the job. */
export const removeScript = script(removalFunctions, 'remove_workspace "$1"');

/**
 * Arguments: workspace, attempt id, `tar` or `empty`. Input: a tar archive.
 * Unpacks the archive into the folder of the attempt. Succeeds only after the end of its input, which the sender delays
 * until it knows that the archive is complete.
 */
export const unpackScript = script(
  removalFunctions,
  'erase "$1.partial" && mkdir -p -- "$1.partial/$2/files" && cd -- "$1.partial/$2/files" || exit',
  'if [ "$3" = empty ]; then exit 0; fi',
  // -p keeps the modes. -o sets the owner to the current user: as root, tar would restore the archived user ids.
  'tar -xpof - && cat >/dev/null && exit',
  'code=$?',
  // Frees the space at once, because the disk may be full. Deletes only this attempt: a later one may have started.
  'cd / && erase "$1.partial/$2" && rmdir -- "$1.partial" 2>/dev/null',
  'exit $code',
);

/**
 * Arguments: workspace, attempt id.
 * Renames the attempt to the workspace. An existing workspace stays, because its job may be running in it. A workspace
 * is never empty, so rename(2) itself refuses to replace one (mv -T). Deletes only this attempt: a later one may have started.
 */
export const commitScript = script(
  removalFunctions,
  '[ -d "$1" ] || mv -T -- "$1.partial/$2" "$1" || [ -d "$1" ] || exit',
  'erase "$1.partial/$2" || exit',
  'rmdir -- "$1.partial" 2>/dev/null',
  'exit 0',
);

/** Arguments: workspace, attempt id. Deletes the files of an attempt whose archive was never completed. */
export const discardScript = script(removalFunctions, 'erase "$1.partial/$2" && rmdir -- "$1.partial"');

/**
 * Arguments: maximum number of entries, workspaces. Prints a line for each workspace: the sum of the sizes of its regular
 * files, as `toChargedBytes` defines them, and the number of everything in it. The size of a file with several hard links
 * is added once. Stops reading a workspace that has more entries. Fails if find prints nothing, not even the folder itself,
 * unless the workspace was removed meanwhile: then nothing was measured, and 0 would be wrong.
 *
 * A folder that its owner may not list or search is made readable before find descends: a job could hide its files there.
 * -execdir also reaches paths longer than PATH_MAX, but find refuses it if PATH has a relative folder. chmod would follow a
 * link that a job puts in the place of the folder, and then give the owner of the job access to what it owns already.
 */
export const measureScript = script(
  'max=$1',
  'shift',
  'case ":$PATH:" in *::* | *:[!/]*) action=-exec ;; *) action=-execdir ;; esac',
  'for workspace do',
  'if [ ! -d "$workspace" ]; then echo 0 0; continue; fi',
  `find "$workspace" '(' -type d ! -perm -500 "$action" chmod u+rx -- {} ';' -o -true ')' \\
    -printf '%y %n %D:%i %s %b\\n' 2>/dev/null | awk -v max="$max" '
    $1 == "f" && ($2 == 1 || !seen[$3]++) { used = $5 * 512; total += used > $4 + ${maxUnchargedBytes} ? used : $4 }
    NR > max + 1 { exit }
    END { if (NR == 0) exit 1; printf "%.0f %d\\n", total, NR - 1 }' || { [ ! -d "$workspace" ] && echo 0 0; } || exit`,
  'done',
);

/** Arguments: root. Prints the names in it, one per line. */
export const listScript = script('mkdir -p -- "$1" && exec ls -A -1 -- "$1"');
