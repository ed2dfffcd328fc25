# shellcheck shell=bash
# Prints a line for each job whose directory is on the input: `<index> never_started`, `<index> not_ended`, or
# `<index> end <code> <start> <end> <written>`. The wrapper creates `<directory>.started` before anything else of the job runs, and
# writes the end record into it. A job whose workspace is absent prints nothing: the file system may be unmounted, so nothing is
# known. A link in the place of `<directory>.started` (prevent-starts.sh) leads nowhere, so that it does not exist for the first test.
index=0
while IFS= read -r -d '' directory; do
  if [ -d "$directory" ]; then
    if [ ! -e "$directory.started" ]; then echo "$index never_started"
    elif [ ! -e "$directory.started/end" ]; then echo "$index not_ended"
    else
      end=
      IFS= read -r end < "$directory.started/end"
      echo "$index end $end $(stat -c %Z -- "$directory.started/end")"
    fi 2> /dev/null
  fi
  index=$((index + 1))
done
