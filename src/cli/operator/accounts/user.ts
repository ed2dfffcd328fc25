import { BursarError } from '../../../domain/errors.ts';
import { type SiteRole, siteRoles } from '../../../domain/identity/policy.ts';
import { commandLineActor } from '../../../services/identity/actor.ts';
import {
  disableUser,
  enableUser,
  linkIdentity,
  listUsers as listAllUsers,
  readUser,
  setUserRole,
  type UserDeps,
  unlinkIdentity,
} from '../../../services/identity/users.ts';
import { formatTable } from '../format-table.ts';
import type { OperatorContext } from '../operator.ts';
import { parseReason } from '../reason.ts';

export interface UserActionOptions {
  reason: string;
  /** The name in the audit trail. */
  actor: string;
}

const withDeps = <T>({ config, withDatabase }: OperatorContext, run: (deps: UserDeps) => Promise<T>) =>
  withDatabase((db) => {
    const accessTopic = { publish: () => undefined };
    return run({ db, providers: config.oidc, now: Date.now, accessTopic });
  });

export async function listUsers(context: OperatorContext, { json }: { json: boolean }): Promise<void> {
  const users = await withDeps(context, listAllUsers);
  if (json) return printJson(context, users);
  const rows = users.map(({ user, role, name, created_at, disabled_at }) => [
    ...[user, role, name ?? '-', created_at],
    disabled_at === null ? 'enabled' : `disabled since ${disabled_at}`,
  ]);
  context.print(formatTable([['USER', 'ROLE', 'NAME', 'CREATED', 'STATE'], ...rows]));
}

export async function showUser(context: OperatorContext, userId: string): Promise<void> {
  printJson(context, await withDeps(context, (deps) => readUser(deps, userId)));
}

export async function setEnabled(
  context: OperatorContext,
  action: 'enable' | 'disable',
  userId: string,
  options: UserActionOptions,
): Promise<void> {
  const setUserEnabled = action === 'enable' ? enableUser : disableUser;
  await changeUser(context, (deps) => setUserEnabled(deps, toChange(userId, options)));
}

export async function setRole(
  context: OperatorContext,
  userId: string,
  role: string,
  options: UserActionOptions,
): Promise<void> {
  if (!isRole(role)) throw new BursarError('invalid_argument', `A role is one of ${siteRoles.join(', ')}.`);
  await changeUser(context, (deps) => setUserRole(deps, toChange(userId, options), role));
}

/** The last administrator can be disabled too, because the account may have been stolen: the command line can undo that. */
async function changeUser(context: OperatorContext, change: (deps: UserDeps) => Promise<unknown>): Promise<void> {
  const users = await withDeps(context, async (deps) => {
    printJson(context, await change(deps));
    return await listAllUsers(deps);
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
  const changeIdentity = action === 'link' ? linkIdentity : unlinkIdentity;
  const details = await withDeps(context, async (deps) => {
    await changeIdentity(deps, toChange(user, options), { issuer, subject });
    return await readUser(deps, user);
  });
  printJson(context, details);
}

const isRole = (text: string): text is SiteRole => (siteRoles as readonly string[]).includes(text);

function toChange(userId: string, { reason, actor }: UserActionOptions) {
  return { actor: commandLineActor(actor), userId, reason: parseReason(reason), idempotency: null };
}

const printJson = ({ print }: OperatorContext, value: unknown) => print(`${JSON.stringify(value, null, 2)}\n`);
