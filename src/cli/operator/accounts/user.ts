import { BursarError } from '../../../domain/errors.ts';
import { type SiteRole, siteRoles } from '../../../domain/identity/policy.ts';
import { commandLineActor } from '../../../services/identity/actor.ts';
import { createUserService, type UserService } from '../../../services/identity/user-service.ts';
import { formatTable } from '../format-table.ts';
import type { OperatorContext } from '../operator.ts';
import { parseReason } from '../reason.ts';

export interface UserActionOptions {
  reason: string;
  /** The name in the audit trail. */
  actor: string;
}

const withUsers = <T>({ config, withDatabase }: OperatorContext, run: (users: UserService) => Promise<T>) =>
  withDatabase((db) =>
    run(createUserService({ db, providers: config.oidc, now: Date.now, publishAccess: () => undefined })),
  );

export async function listUsers(context: OperatorContext, { json }: { json: boolean }): Promise<void> {
  const users = await withUsers(context, (service) => service.list());
  if (json) return printJson(context, users);
  const rows = users.map(({ user, role, name, created_at, disabled_at }) => [
    ...[user, role, name ?? '-', created_at],
    disabled_at === null ? 'enabled' : `disabled since ${disabled_at}`,
  ]);
  context.print(formatTable([['USER', 'ROLE', 'NAME', 'CREATED', 'STATE'], ...rows]));
}

export async function showUser(context: OperatorContext, userId: string): Promise<void> {
  printJson(context, await withUsers(context, (service) => service.read(userId)));
}

export async function setEnabled(
  context: OperatorContext,
  action: 'enable' | 'disable',
  userId: string,
  options: UserActionOptions,
): Promise<void> {
  await changeUser(context, (service) => service[action](toChange(userId, options)));
}

export async function setRole(
  context: OperatorContext,
  userId: string,
  role: string,
  options: UserActionOptions,
): Promise<void> {
  if (!isRole(role)) throw new BursarError('invalid_argument', `A role is one of ${siteRoles.join(', ')}.`);
  await changeUser(context, (service) => service.setRole(toChange(userId, options), role));
}

/** The last administrator can be disabled too, because the account may have been stolen: the command line can undo that. */
async function changeUser(context: OperatorContext, change: (service: UserService) => Promise<unknown>): Promise<void> {
  const users = await withUsers(context, async (service) => {
    printJson(context, await change(service));
    return await service.list();
  });
  if (users.some(({ role, disabled_at }) => role === 'administrator' && disabled_at === null)) return;
  context.warn('Warning: there is no administrator any more. Make one with "bursar user role".\n');
}

interface LinkOptions extends UserActionOptions {
  user: string;
  issuer: string;
  subject: string;
}

export async function link(context: OperatorContext, action: 'link' | 'unlink', options: LinkOptions): Promise<void> {
  const { user, issuer, subject } = options;
  const details = await withUsers(context, async (service) => {
    await service[action](toChange(user, options), { issuer, subject });
    return await service.read(user);
  });
  printJson(context, details);
}

const isRole = (text: string): text is SiteRole => (siteRoles as readonly string[]).includes(text);

function toChange(userId: string, { reason, actor }: UserActionOptions) {
  return { actor: commandLineActor(actor), userId, reason: parseReason(reason), request: null };
}

const printJson = ({ print }: OperatorContext, value: unknown) => print(`${JSON.stringify(value, null, 2)}\n`);
