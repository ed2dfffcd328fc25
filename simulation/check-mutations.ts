import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Mutation, mutations } from './mutations.ts';
import { runSeeds } from './run-seeds.ts';

const maxSeed = 200;
const root = fileURLToPath(new URL('..', import.meta.url));

/** Applies each mutation to a copy of the sources, and looks for a seed that fails. Returns whether all were caught. */
export async function checkMutations(nameContains: string): Promise<boolean> {
  let areAllCaught = true;
  for (const mutation of mutations.filter(({ name }) => name.includes(nameContains))) {
    const startedAt = performance.now();
    const caught = await findFailingSeed(mutation);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
    const result = caught === null ? `✖ not caught by ${maxSeed} seeds` : `✔ seed ${caught.seed}: ${caught.problem}`;
    console.log(`${mutation.name} (${seconds} s)\n    ${result}`);
    areAllCaught &&= caught !== null;
  }
  return areAllCaught;
}

async function findFailingSeed(mutation: Mutation): Promise<{ seed: number; problem: string } | null> {
  const copy = mkdtempSync(join(tmpdir(), 'bursar-mutation-'));
  try {
    for (const folder of ['src', 'simulation']) cpSync(join(root, folder), join(copy, folder), { recursive: true });
    for (const file of ['package.json', 'node_modules']) symlinkSync(join(root, file), join(copy, file));
    for (const [file, text] of mutate(mutation)) writeFileSync(join(copy, 'src', file), text);
    const stopping = new AbortController();
    const folder = pathToFileURL(`${join(copy, 'simulation')}/`);
    let caught: { seed: number; problem: string } | null = null;
    const onResult = ({ seed, problems: [problem] }: { seed: number; problems: string[] }) => {
      if (problem === undefined || caught !== null) return;
      caught = { seed, problem };
      stopping.abort();
    };
    await runSeeds(1, maxSeed, { folder, signal: stopping.signal, onResult }).catch((error) => {
      if (caught === null) throw error;
    });
    return caught;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/**
 * The changed text of each file, by its path in `src/`. Every text must occur exactly once: a mutation that no longer applies is
 * an error, not a success.
 */
export function mutate({ name, changes }: Mutation): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { file, from, to } of changes) {
    const text = texts.get(file) ?? readFileSync(join(root, 'src', file), 'utf8');
    if (text.split(from).length !== 2) throw new Error(`"${name}" does not apply to ${file}: ${from}`);
    texts.set(
      file,
      text.replace(from, () => to),
    );
  }
  return texts;
}
