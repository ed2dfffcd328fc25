# shellcheck shell=bash
# Prints a line for each job whose directory is on the input: `never_started`, `not_ended`, or `end <code> <start> <end> <written>`.
# The wrapper creates `<directory>.started` before anything else of the job runs, and writes the end record into it. The line is
# `unknown` if the workspace is absent: the file system may be unmounted. A link in the place of `<directory>.started` (prevent-starts.sh) leads nowhere, so that it does not exist for the first test.
while IFS= read -r -d '' directory; do
  if [ ! -d "$directory" ]; then echo unknown
  elif [ ! -e "$directory.started" ]; then echo never_started
  elif [ ! -e "$directory.started/end" ]; then echo not_ended
  else
    end=
    IFS= read -r end < "$directory.started/end"
    echo "end $end $(stat -c %Z -- "$directory.started/end")"
  fi 2> /dev/null
done
