# shellcheck shell=bash disable=SC2154
# Runs a command of the scheduler, its arguments, in the environment that run-command.ts describes.
#
# Set in front: context_variables, option_prefixes, query_variables; for the submit command submit_variables.
kept=()
for name in "${context_variables[@]}"; do [ -z "${!name-}" ] || kept+=("$name=${!name}"); done
for prefix in "${option_prefixes[@]}"; do eval "unset \${!$prefix@}"; done
[ "${#kept[@]}" = 0 ] || export "${kept[@]}"
umask 077
if [ "${#submit_variables[@]}" -gt 0 ]; then
  environment=()
  for name in "${submit_variables[@]}"; do [ -z "${!name+set}" ] || environment+=("$name=${!name}"); done
  exec env -i "${environment[@]}" "$@"
fi
# Without TZ the C library checks /etc/localtime for each time that it formats: a fifth of the time of a long list.
export TZ="${TZ-:/etc/localtime}" "${query_variables[@]}"
exec "$@"
