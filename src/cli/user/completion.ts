import type { Context } from './context.ts';
import { usageError } from './errors.ts';

/** Each script asks `bursar complete-words` for the candidates of the words up to the cursor. */
const scripts: Record<string, string> = {
  bash: `_bursar() {
  local IFS=$'\\n'
  COMPREPLY=($(bursar complete-words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _bursar bursar
`,
  zsh: `#compdef bursar
_bursar() {
  local -a candidates
  candidates=("\${(@f)$(bursar complete-words -- "\${(@)words[2,CURRENT]}" 2>/dev/null | cut -f1)}")
  [[ -n "$candidates" ]] && compadd -a candidates || _files
}
compdef _bursar bursar
`,
  fish: `complete -c bursar -f -a '(bursar complete-words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
complete -c bursar -n '__fish_seen_subcommand_from submit sweep' -F
`,
};

/** Prints the script that makes a shell complete \`bursar\`. */
export async function run(context: Context, { shell }: { shell: string }): Promise<void> {
  const script = scripts[shell];
  if (script === undefined) throw usageError(`"${shell}" is not a known shell.`, 'Use bash, zsh or fish.');
  await context.print(script);
}
