# shellcheck shell=bash
# Puts a link in the place of the start record of each job whose directory is on the input, so that the wrapper cannot create it.
# Unlike a folder it cannot be mistaken for the record of a job that has started. Both are created by one system call that fails
# if the other one exists.
while IFS= read -r -d '' directory; do
  if ln -sT -- never_started "$directory.started" 2> /dev/null || [ -L "$directory.started" ]; then echo prevented
  elif [ -d "$directory.started" ]; then echo started
  else echo failed
  fi
done
