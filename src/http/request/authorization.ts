import type { FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { type Action, decide, type SiteRole, type TokenScope } from '../../domain/identity/policy.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { Caller } from '../../services/identity/actor.ts';
import type { RouteAccess } from '../operation.ts';
import { callerOf } from './authentication.ts';
import { projectOf, scopeOf } from './path-params.ts';

/** Returns whether the caller is allowed as a manager of the project only. */
export async function authorize(
  request: FastifyRequest,
  { action, reach }: RouteAccess,
  access: Pick<AccessService, 'isManager'>,
): Promise<boolean> {
  const caller = callerOf(request);
  requireWithinLimit(request, caller, action);
  const decision = decide(action, reach, caller);
  if (decision.kind === 'allowed') return false;
  if (decision.kind === 'scope_missing') throw scopeMissing(decision.missingScope);
  const project = projectOf(request);
  const isManager =
    decision.kind === 'managers_only' && project !== undefined && (await access.isManager(caller.userId, project));
  if (!isManager) {
    const isUnnamed = project === undefined && takesProject(request);
    throw roleMissing(decision.roles, decision.kind !== 'managers_only' ? 'none' : isUnnamed ? 'unnamed' : 'named');
  }
  if (decision.missingScope !== undefined) throw scopeMissing(decision.missingScope);
  return true;
}

/** A token for one system or project can be used only for paths that name it, and to manage itself. */
function requireWithinLimit(request: FastifyRequest, { limit }: Caller, action: Action): void {
  if (limit.hpc === null || accountActions.has(action)) return;
  const { hpc, project } = scopeOf(request);
  if (hpc === limit.hpc && (limit.project === null || project === limit.project)) return;
  const name = limit.project === null ? limit.hpc : `${limit.hpc}/${limit.project}`;
  const message = `This token can be used for ${name} only. Use a path with ${name}, or another token.`;
  throw new BursarError('insufficient_scope', message, { details: { limited_to: name } });
}

const accountActions = new Set<Action>([
  'account.read',
  'tokens.read',
  'tokens.write',
  'sessions.read',
  'sessions.write',
]);

function scopeMissing(scope: TokenScope): BursarError {
  const message = `This token does not have the scope ${scope}. Use a token that has it.`;
  return new BursarError('insufficient_scope', message, { details: { scope } });
}

/** Whether the query of the route can name a project. */
function takesProject(request: FastifyRequest): boolean {
  return 'project_name' in (request.routeOptions.config.route?.query ?? {});
}

/** `unnamed`: managers are allowed if the request names their project, and this one names none. */
function roleMissing(roles: readonly SiteRole[], managers: 'none' | 'named' | 'unnamed'): BursarError {
  const forManagers = managers !== 'none';
  const allowed = [...roles.map((role) => `${role}s`), ...(forManagers ? ['managers of the project'] : [])];
  const advice =
    managers === 'unnamed'
      ? 'A manager names the project, with its system: hpc and project_name.'
      : 'Ask an administrator for the role.';
  const message = `This request is for ${formatList(allowed)}. ${advice}`;
  const required = [...roles, ...(forManagers ? ['project_manager'] : [])].join(' ');
  return new BursarError('forbidden', message, { details: { required_role: required } });
}

const formatList = (words: readonly string[]) => words.join(', ').replace(/, (?=[^,]*$)/, ' and ');

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller is allowed as a manager of the project in the path or query only. */
    isManager: boolean;
  }
}
