import type { FieldError } from '../domain/errors.ts';
import type { OidcConfig } from './oidc-schema.ts';
import type { Config } from './schema.ts';

const projectPath = /^([a-z][a-z0-9_]{0,31})\/[a-z0-9][a-z0-9_-]{0,63}$/;

/** Checks the keys of the OpenID providers against each other, and against the systems. */
export function findProviderErrors({ oidc, systems }: Config): FieldError[] {
  return oidc.flatMap((provider, index) => {
    const errors = findErrors(provider, Object.keys(systems));
    if (oidc.findIndex(({ issuer }) => issuer === provider.issuer) < index) errors.push(['issuer', 'is listed twice']);
    return errors.map(([key, message]) => ({ field: `oidc.${index}.${key}`, message }));
  });
}

function findErrors(provider: OidcConfig, systems: readonly string[]): [key: string, message: string][] {
  const { issuer, clientId, clientSecret, introspection, claims, roles, projects, syncMemberships } = provider;
  const errors: [string, string][] = [];
  if (!URL.canParse(issuer)) errors.push(['issuer', 'is not a URL']);
  else if (new URL(issuer).search !== '' || new URL(issuer).hash !== '')
    errors.push(['issuer', 'must have no query and no fragment']);
  if (clientSecret !== undefined && clientId === undefined) errors.push(['clientSecret', 'needs clientId']);
  if (introspection && (clientId === undefined || clientSecret === undefined))
    errors.push(['introspection', 'needs clientId and clientSecret, with which Bursar asks the issuer']);
  const hasProjects = Object.keys(projects).length > 0;
  if (claims.groups === undefined && roles !== undefined)
    errors.push(['roles', 'needs claims.groups: the claim with the groups']);
  if (claims.groups === undefined && hasProjects)
    errors.push(['projects', 'needs claims.groups: the claim with the groups']);
  if (syncMemberships && !hasProjects) errors.push(['syncMemberships', 'needs projects']);
  for (const [group, entry] of Object.entries(projects)) {
    const [, hpc] = projectPath.exec(typeof entry === 'string' ? entry : entry.project) ?? [];
    if (hpc === undefined) errors.push([`projects.${group}`, 'must be system/project, such as hpc_one/climate']);
    else if (!systems.includes(hpc)) errors.push([`projects.${group}`, `there is no system ${hpc}`]);
  }
  return errors;
}
