/**
 * What is done to workspaces where they are, by POSIX shell scripts. Everything that varies is an argument ($1…),
 * never a part of a script. Messages are in English, so that `remoteTrouble` can read them.
 *
 * Locked folders are opened only if removing fails, as the way over every file costs time.
 */
const removal = `
erase() {
  rm -rf -- "$1" 2>/dev/null && return
  chmod -R u+rwx -- "$1" 2>/dev/null
  rm -rf -- "$1"
}
clear_away() {
  erase "$1.removed" || return
  if [ -e "$1" ] || [ -L "$1" ]; then mv -- "$1" "$1.removed" || return; fi
  erase "$1.removed" && erase "$1.partial"
}`;

const script = (...lines: string[]) => ['export LC_ALL=C', 'umask 077', ...lines].join('\n');

/** home → nothing of it is left. */
export const removeScript = script(removal, 'clear_away "$1"');

/**
 * home, attempt, `tar` or `empty` → the files of the archive on stdin are in the folder of the attempt. Ends well only
 * after the end of its input, which the sender holds back until it knows that the archive is whole.
 */
export const unpackScript = script(
  removal,
  'erase "$1.partial" && mkdir -p -- "$1.partial/$2/files" && cd -- "$1.partial/$2/files" || exit',
  'if [ "$3" = empty ]; then exit 0; fi',
  // With their modes, but owned by whoever unpacks them: root would give them to strangers.
  'tar -xpof - && cat >/dev/null && exit',
  'code=$?',
  // Room for others at once, as the disk may be full. Only its own attempt: there may be a later one by now.
  'cd / && erase "$1.partial/$2" && rmdir -- "$1.partial" 2>/dev/null',
  'exit $code',
);

/**
 * home, attempt → the attempt has become the workspace, unless there was one: that stays, for its job may be running in
 * it. A workspace is never empty, so that the system itself refuses to put another in its place (-T).
 */
export const publishScript = script(
  removal,
  '[ -d "$1" ] || mv -T -- "$1.partial/$2" "$1" || [ -d "$1" ] || exit',
  'erase "$1.partial"',
);

/**
 * home → the sum of the sizes of its regular files, those with several names once. A folder that find shows nothing
 * of, not even itself, was not measured: that is a failure and not a 0.
 */
export const measureScript = script(
  'if [ ! -d "$1" ]; then echo 0; exit; fi',
  `find "$1" -printf '%y %n %D:%i %s\\n' 2>/dev/null | awk '
    $1 == "f" && ($2 == 1 || !seen[$3]++) { total += $4 }
    END { if (NR == 0) exit 1; printf "%.0f\\n", total }'`,
);

/** root → the names in it, a line each. */
export const listScript = script('mkdir -p -- "$1" && exec ls -A -1 -- "$1"');
