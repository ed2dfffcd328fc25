import type { Command } from 'commander';
import { createProgram } from '../src/cli/run-program.ts';
import { addUserCommands } from '../src/cli/user/commands.ts';
import { exitCodes } from '../src/cli/user/exit-codes.ts';

/** docs/command-line.md, from the definitions of the commands. */
export function commandLineReference(): string {
  const program = createProgram('', process);
  addUserCommands(program, process);
  const visible = program.commands.filter((command) => command.name() !== 'complete-words');
  const groups = Map.groupBy(visible, (command) => command.helpGroup());
  const sections = [...groups].map(([heading, commands]) => {
    const rows = commands.flatMap((command) => leaves(command, 'bursar')).join('\n');
    return `## ${heading.replace(/:$/, '')}\n\n| command | |\n|---|---|\n${rows}\n`;
  });
  const codes = Object.values(exitCodes).map(({ code, meaning }) => `| ${code} | ${meaning} |`);
  return `# Command line

\`bursar\` is for users: it speaks HTTP to a server, and needs nothing else of Bursar. The same program has the commands of
operators, which work on the host of the server (\`bursar --help\`). This page is generated from the definitions of the
commands by \`npm run docs\`. \`bursar <command> --help\` shows the options of a command.

${introduction}

${sections.join('\n')}
## Exit codes

| code | meaning |
|---|---|
${codes.join('\n')}

The operators' commands have codes of their own: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration, 4 not found,
5 data folder in use.
`;
}

/** The commands that do something, with their arguments. */
function leaves(command: Command, parent: string): string[] {
  const name = `${parent} ${command.name()}`;
  const visible = command.commands.filter((child) => child.name() !== 'help');
  const usage = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
  );
  const isGroup = visible.length > 0 && !command.options.some(({ long }) => long === '--json');
  const options = command.options.flatMap(({ long, hidden }) =>
    long && long !== '--json' && !hidden ? [`\`${long}\``] : [],
  );
  const own = `| \`${[name, ...usage].join(' ')}\` | ${command.description()}${options.length > 0 ? `<br>${options.join(' ')}` : ''} |`;
  return [...(isGroup ? [] : [own]), ...visible.flatMap((child) => leaves(child, name))];
}

const introduction = `**Sign-in.** \`bursar login https://bursar.example.org\` shows a code and an address: open the address in any browser and
confirm the code. That happens at the OpenID provider of the site if it has the device flow, otherwise at Bursar itself
(\`--issuer bursar\`). \`--token\` takes a token from its value or from standard input. The token is stored in a profile, in
\`$XDG_CONFIG_HOME/bursar/profiles.json\` (\`~/.config\` by default), which only its owner may read. A token of a provider is
renewed before it ends. The first profile is the default; \`bursar profiles use\` makes another one the default, and
\`--profile\` and \`BURSAR_PROFILE\` choose one.
\`BURSAR_URL\` and \`BURSAR_TOKEN\` win over all of them. A token is never sent to another server than the one of its profile,
nor over plain HTTP to another host, unless \`--insecure\` accepts that.

**Jobs** are named by their id, by any beginning of it that no other job has, or by \`@last\`, the newest one.

**Output.** On a terminal: tables that fit its width, colours (\`NO_COLOR\` turns them off, \`FORCE_COLOR\` on), relative times;
\`--watch\` redraws its own lines in place. In a pipe: one line a row, separated by tabs, with the names of the columns first,
whole ids, ISO 8601 times, and the units of the API. \`--json\` prints the objects of the API; where it streams, one a line.
Control characters in texts of the server are escaped, except the colours of a log. Messages and progress go to standard error.

**Ctrl-C** while a job is watched leaves the job alone, and says how to come back.

**Errors** have two lines: the cause and the next step. \`--verbose\` adds the requests and the request id, but no token.`;
