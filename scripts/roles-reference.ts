import { policy, siteRoles } from '../src/domain/identity/policy.ts';

interface Rule {
  description: string;
  own?: string | null;
  others?: { scope: string; roles: readonly string[]; managers?: true };
}

/** The page docs/roles.md, from the policy. */
export function rolesReference(): string {
  const rules = Object.entries(policy) as [string, Rule][];
  const roles = siteRoles.filter((role) => role !== 'user');
  const own = rules.flatMap(([action, { description, own }]) =>
    own === undefined ? [] : [`| \`${action}\` | ${description} | ${own === null ? 'any token' : `\`${own}\``} |`],
  );
  const others = rules.flatMap(([action, { description, others: rule }]) => {
    if (rule === undefined) return [];
    const cells = [rule.managers === true, ...roles.map((role) => rule.roles.includes(role))];
    return [
      `| \`${action}\` | ${description} | ${cells.map((may) => (may ? 'yes' : '')).join(' | ')} | \`${rule.scope}\` |`,
    ];
  });
  return `# Roles

Every user has one role on the site: ${siteRoles.map((role) => `\`${role}\``).join(', ')}. A member of a project can also be a
manager of it. Every token has scopes, which limit what it can be used for; the role of its owner still decides. Each path of
the API performs one of these actions. This page is generated from \`src/domain/identity/policy.ts\` by \`npm run docs\`.

## With resources of one's own

Every role may do this, with a token that has the scope.

| action | meaning | scope |
|---|---|---|
${own.join('\n')}

## With resources of others

These are the paths under \`/admin/\`. A manager names the project in the path, or in the query.

| action | meaning | manager of the project | ${roles.join(' | ')} | scope |
|---|---|---|${roles.map(() => '---|').join('')}---|
${others.join('\n')}
`;
}
