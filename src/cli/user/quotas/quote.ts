import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { exitCodes } from '../exit-codes.ts';
import { parseCount, parseHours } from '../parse-options.ts';
import { parseParameters } from '../submit/parameters.ts';
import { describeQuote } from '../submit/quote-text.ts';
import { escapeText } from '../terminal/text.ts';

interface QuoteOptions {
  system?: string;
  project?: string;
  command?: string;
  tool?: string;
  nodes?: string;
  cores?: string;
  runtime?: string;
  param?: string[];
}

/** Shows what a job would cost. The exit code is that of the quota if the job would not be accepted now. */
export async function run(context: Context, options: QuoteOptions): Promise<void> {
  const client = await context.client();
  const { signal } = context;
  const systems = await client.api.listSystems({ signal });
  const [only, ...others] = systems;
  const hpc = options.system ?? (others.length === 0 ? only?.hpc : undefined);
  const system = systems.find(({ hpc: name }) => name === hpc);
  if (system === undefined) {
    const cause = hpc === undefined ? 'On which system?' : `There is no system "${hpc}".`;
    throw usageError(cause, `Use --system with one of: ${systems.map(({ hpc: name }) => name).join(', ')}`);
  }
  // The cost depends on neither of them, but the server checks the whole request.
  const program =
    system.kind === 'batch' ? { command: options.command ?? 'true' } : { tool: options.tool ?? system.tools[0]?.name };
  const quote = await client.quote({
    hpc: system.hpc,
    project: options.project,
    ...program,
    nodes: parseCount('--nodes', options.nodes),
    coresPerNode: parseCount('--cores', options.cores),
    runtime: parseHours(options.runtime),
    params: parseParameters(options.param),
    signal,
  });
  if (!quote.accepted) context.exitCode = exitCodes.quota.code;
  if (context.options.json) return await context.printJson(quote);
  if (!context.isTerminal)
    return await context.printFields(
      Object.entries(quote).map(([name, value]) => [name, String(value ?? '')] as const),
    );
  await context.print(`${describeQuote(quote, system)}\n`);
  if (!quote.accepted) context.note(`It would not be accepted now: ${escapeText(quote.reason ?? '')}`);
}
