import type { Resource } from '../../../shared/amount.ts';

/** Seconds of an hour, KB of a GB. */
const unitSizes: Record<Resource, number> = { time: 3600, space: 1_000_000 };
const maxAmount = 1e12;

/** Commas and spaces only between groups of three digits: `1,5` is one and a half to many, and must not become 15. */
const grouped = /^\d{1,3}([,\s])\d{3}(\1\d{3})*(\.\d+)?$/;

/** Reads hours or GB, such as `1,000` or `0.5`, as seconds or KB. Undefined if the text is no amount above the minimum. */
export function parseAmount(text: string, resource: Resource, min = 1): number | undefined {
  const trimmed = text.trim();
  const plain = grouped.test(trimmed) ? trimmed.replaceAll(/[,\s]/g, '') : trimmed;
  if (!/^\d+(\.\d+)?$|^\.\d+$/.test(plain)) return undefined;
  const amount = Math.round(Number(plain) * unitSizes[resource]);
  return amount >= min && amount <= maxAmount ? amount : undefined;
}
