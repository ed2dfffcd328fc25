/** A counter of a Bursar's, summed over all commands, for hpc_one. */
export async function readCounter({ url }: { url: string }, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const samples = text.matchAll(new RegExp(`^${name}\\{hpc="hpc_one"[^}]*\\} ([\\d.e-]+)`, 'gm'));
  return [...samples].reduce((sum, [, value]) => sum + Number(value), 0);
}
