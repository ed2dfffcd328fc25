// Generates the reference pages and the types of the TypeScript client from the code. With --check it only compares them, and fails
// if one is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ConfigSchema } from '../src/config/schema.ts';
import { engines } from '../src/engines/registry.ts';
import { errorReference } from '../src/http/openapi/docs-page.ts';
import { clientFiles } from './client-types.ts';
import { commandLineReference } from './command-line-reference.ts';
import { metricsReference } from './metrics-reference.ts';
import { readOpenApiDocument } from './openapi-document.ts';
import { rolesReference } from './roles-reference.ts';

interface SchemaNode {
  type?: string;
  description?: string;
  default?: unknown;
  const?: string;
  pattern?: string;
  anyOf?: SchemaNode[];
  enum?: string[];
  items?: SchemaNode;
  properties?: Record<string, SchemaNode>;
  patternProperties?: Record<string, SchemaNode>;
  required?: string[];
}

const document = await readOpenApiDocument();
const pages: Record<string, string> = {
  'docs/configuration.md': configurationReference(),
  'docs/command-line.md': commandLineReference(),
  'docs/errors.md': errorReference(),
  'docs/metrics.md': metricsReference(),
  'docs/roles.md': rolesReference(document),
  ...(await clientFiles(document)),
};
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

Bursar reads one YAML file: the one named by \`BURSAR_CONFIG\`, or else the shipped \`config/bursar.yaml\`. Keys that the
file omits have the defaults below. Unknown keys are errors. \`BURSAR_HOST\`, \`BURSAR_PORT\`, \`BURSAR_DATA\`,
\`BURSAR_DATABASE_URL\` and \`BURSAR_METRICS_TOKEN\` override the file.

Every text can be in a file or an environment variable instead: \`!file /etc/bursar/metrics-token\`, \`!env METRICS_TOKEN\`.
[operations.md](operations.md#secrets) has the rules.

\`npm run -s bursar -- config check\` validates the configuration, \`config print\` prints the effective one.

This page is generated from the schema in \`src/config/schema.ts\` by \`npm run docs\`.

| key | type | default | meaning |
|---|---|---|---|
${tableRows(ConfigSchema as unknown as SchemaNode, '').join('\n')}
${Object.entries(engines).map(engineReference).join('')}`;
}

function engineReference([kind, { schema }]: [string, { schema: unknown }]): string {
  const node = schema as SchemaNode;
  // The heading has the kind.
  const { kind: _, ...properties } = node.properties ?? {};
  return `
## \`engine: { kind: ${kind} }\`

${node.description}

| key | type | default | meaning |
|---|---|---|---|
${tableRows({ ...node, properties }, 'engine').join('\n')}
`;
}

function tableRows(node: SchemaNode, path: string): string[] {
  const { required = [] } = node;
  const rows: string[] = [];
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    const key = path === '' ? name : `${path}.${name}`;
    const isGroup = child.properties !== undefined;
    if (!isGroup || child.description) {
      rows.push(
        `| \`${key}\` | ${formatType(child)} | ${formatDefault(child, required.includes(name))} | ${formatMeaning(child)} |`,
      );
    }
    if (isGroup) rows.push(...tableRows(child, key));
    for (const entry of Object.values(child.patternProperties ?? {})) rows.push(...tableRows(entry, `${key}.<name>`));
    if (child.items?.properties) rows.push(...tableRows(child.items, `${key}[]`));
  }
  return rows;
}

function formatType({ anyOf, enum: values, type, patternProperties, items }: SchemaNode): string {
  if (values) return values.map((value) => `\`${value}\``).join(', ');
  if (anyOf) return anyOf.map((choice) => (choice.const ? `\`${choice.const}\`` : choice.type)).join(', ');
  if (patternProperties) return 'map by name';
  return items?.type ? `list of ${items.type}` : (type ?? '');
}

function formatDefault(node: SchemaNode, isRequired: boolean): string {
  if (node.properties || node.patternProperties) return '';
  if (node.default === undefined) return isRequired ? '**required**' : '';
  return `\`${JSON.stringify(node.default)}\``;
}

function formatMeaning({ description = '', pattern }: SchemaNode): string {
  return [description, pattern ? `Matches \`${pattern.replaceAll('|', '\\|')}\`.` : ''].filter(Boolean).join(' ');
}
