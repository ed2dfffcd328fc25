import { policy, siteRoles } from '../src/domain/identity/policy.ts';
import type { OpenApiDocument } from './openapi-document.ts';

interface Rule {
  description: string;
  own?: string | null;
  others?: { scope: string; roles: readonly string[]; managers?: true };
}

/** The page docs/roles.md, from the policy and the declarations of the operations. */
export function rolesReference(document: OpenApiDocument): string {
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  const operationsOf = (action: string, isAdministration: boolean) =>
    operations
      .filter((each) => each['x-action'] === action && each.tags.includes('administration') === isAdministration)
      .map(({ operationId }) => `\`${operationId}\``)
      .join(', ');
  const rules = Object.entries(policy) as [string, Rule][];
  const roles = siteRoles.filter((role) => role !== 'user');
  const own = rules.flatMap(([action, { description, own }]) =>
    own === undefined
      ? []
      : [
          `| \`${action}\` | ${description} | ${own === null ? 'any token' : `\`${own}\``} | ${operationsOf(action, false)} |`,
        ],
  );
  const others = rules.flatMap(([action, { description, others: rule }]) => {
    if (rule === undefined) return [];
    const cells = [rule.managers === true, ...roles.map((role) => rule.roles.includes(role))];
    return [
      `| \`${action}\` | ${description} | ${cells.map((may) => (may ? 'yes' : '')).join(' | ')} | \`${rule.scope}\` | ${operationsOf(action, true)} |`,
    ];
  });
  return `# Roles

Every user has one role on the site: ${siteRoles.map((role) => `\`${role}\``).join(', ')}. A member of a project can also be a
manager of it. Every token has scopes, which limit what it can be used for; the role of its owner still decides. Each
operation of the API performs one of these actions; the OpenAPI document has it as \`x-action\`. This page is generated from
\`src/domain/identity/policy.ts\` and from the operations by \`npm run docs\`.

## With resources of one's own

Every role may do this, with a token that has the scope.

| action | meaning | scope | operations |
|---|---|---|---|
${own.join('\n')}

## With resources of others

These are the paths under \`/admin/\`. A manager names the project in the path, or in the query.

| action | meaning | manager of the project | ${roles.join(' | ')} | scope | operations |
|---|---|---|${roles.map(() => '---|').join('')}---|---|
${others.join('\n')}
`;
}
