# shellcheck shell=bash disable=SC2154
# Ends with `refused_code`, which is set in front, if a script cannot run, and prints `absent`, `outside`, or `file` and the first
# line of the script. The arguments are the folder that the job starts in, and the path of the script in it.
#
# Follows symbolic links before it decides. Starts a program only if there are some: that takes longer than the rest. Reads up to
# the first NUL: otherwise bash would skip them all, which takes minutes in a large file without a line end.
refuse() { printf '%s\n' '' "$@"; exit "$refused_code"; }
directory=$1 target=$1/$2 part=$2
[ -d "$directory" ] || refuse absent
while :; do
  if [ -L "$directory/$part" ] || [ "${part##*/}" = .. ]; then
    directory=$(realpath -e -- "$1" 2> /dev/null) || refuse absent
    target=$(realpath -e -- "$1/$2" 2> /dev/null) || refuse absent
    break
  fi
  case $part in */*) part=${part%/*} ;; *) break ;; esac
done
case $target in "$directory"/*) ;; *) refuse outside ;; esac
[ -f "$target" ] || refuse absent
line=
LC_ALL=C IFS= read -r -d '' -n 1024 line 2> /dev/null < "$target" || :
line=${line%%$'\n'*}
case $line in *$'\r') refuse file "$line" ;; '#!'*[![:space:]]*) ;; *) refuse file "$line" ;; esac
