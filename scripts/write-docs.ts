// Writes the reference pages that are made from the code. With --check it only compares, and fails when one is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ConfigSchema } from '../src/config/schema.ts';
import { engineSchemas } from '../src/config/system-schema.ts';
import { errorReference } from '../src/http/server/error-reference.ts';

interface Node {
  type?: string;
  description?: string;
  default?: unknown;
  const?: string;
  pattern?: string;
  anyOf?: Node[];
  enum?: string[];
  items?: Node;
  properties?: Record<string, Node>;
  patternProperties?: Record<string, Node>;
  required?: string[];
}

const pages = { 'docs/configuration.md': configurationReference(), 'docs/errors.md': errorReference() };
const stale = Object.entries(pages).filter(([page, text]) => {
  const path = fileURLToPath(new URL(`../${page}`, import.meta.url));
  if (!process.argv.includes('--check')) {
    writeFileSync(path, text);
    return false;
  }
  return readFileSync(path, 'utf8') !== text;
});
for (const [page] of stale) console.error(`${page} is out of date; run "npm run docs"`);
process.exitCode = stale.length > 0 ? 1 : 0;

function configurationReference(): string {
  return `# Configuration

One YAML file, named by \`BURSAR_CONFIG\`; where that is not set, the shipped \`config/bursar.yaml\`. The file is a
whole: what it leaves out takes the defaults below. Unknown keys are errors. \`BURSAR_HOST\`, \`BURSAR_PORT\`,
\`BURSAR_DATA\` and \`BURSAR_DATABASE_URL\` win over the file.

\`npm run -s bursar -- config check\` validates it, \`config print\` shows what is in force.

This page is made from the schema in \`src/config/schema.ts\` by \`npm run docs\`.

| key | type | default | meaning |
|---|---|---|---|
${rowsOf(ConfigSchema as unknown as Node, '').join('\n')}
${Object.entries(engineSchemas).map(engineReference).join('')}`;
}

function engineReference([kind, schema]: [string, unknown]): string {
  const node = schema as Node;
  return `
## \`engine: { kind: ${kind} }\`

${node.description}

| key | type | default | meaning |
|---|---|---|---|
${rowsOf(node, 'engine').join('\n')}
`;
}

function rowsOf(node: Node, path: string): string[] {
  const { required = [] } = node;
  const rows: string[] = [];
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    const key = path === '' ? name : `${path}.${name}`;
    const isGroup = child.properties !== undefined;
    if (!isGroup || child.description) {
      rows.push(`| \`${key}\` | ${typeOf(child)} | ${defaultOf(child, required.includes(name))} | ${meaning(child)} |`);
    }
    if (isGroup) rows.push(...rowsOf(child, key));
    for (const entry of Object.values(child.patternProperties ?? {})) rows.push(...rowsOf(entry, `${key}.<name>`));
    if (child.items?.properties) rows.push(...rowsOf(child.items, `${key}[]`));
  }
  return rows;
}

function typeOf({ anyOf, enum: words, type, patternProperties, items }: Node): string {
  if (words) return words.map((word) => `\`${word}\``).join(', ');
  if (anyOf) return anyOf.map((choice) => (choice.const ? `\`${choice.const}\`` : choice.type)).join(', ');
  if (patternProperties) return 'map by name';
  return items?.type ? `list of ${items.type}` : (type ?? '');
}

function defaultOf(node: Node, required: boolean): string {
  if (node.properties || node.patternProperties) return '';
  if (node.default === undefined) return required ? '**required**' : '';
  return `\`${JSON.stringify(node.default)}\``;
}

function meaning({ description = '', pattern }: Node): string {
  return [description, pattern ? `Matches \`${pattern.replaceAll('|', '\\|')}\`.` : ''].filter(Boolean).join(' ');
}
