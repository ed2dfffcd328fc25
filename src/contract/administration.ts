import Type from 'typebox';
import { siteRoles } from '../domain/identity/policy.ts';
import { namedObject, nullable, patterns, requestBody, resource, timestamp } from './fields.ts';

const reason = Type.String({
  maxLength: 500,
  pattern: patterns.reason.pattern,
  description: 'Reason, recorded permanently.',
});
const quantity = (minimum: number, description: string, options: { default?: number } = {}) =>
  Type.Integer({ minimum, maximum: 1e12, description, ...options });
const amount = quantity(1, 'Seconds of time, or KB of space.');
const kind = Type.Enum(['top_up', 'withdraw']);
const user = Type.String({ pattern: patterns.user.pattern });
const memberStatus = Type.Enum(['active', 'removed', 'banned']);
const memberRole = Type.Enum(['member', 'manager'], { description: 'A manager reads and steers the project.' });

const exampleGrant = { kind: 'top_up', resource: 'time', amount: 3600, reason: 'approved by the committee' };

const grantFields = { kind, resource, amount, reason };
export const PoolGrantBody = requestBody(grantFields, exampleGrant);

export const CapGrantBody = requestBody(
  {
    ...grantFields,
    source: Type.Enum(['new', 'pool'], {
      default: 'new',
      description:
        '`new`: the pool changes by the same amount. `pool`: the amount comes from, or returns to, the reserve of the pool.',
    }),
  },
  exampleGrant,
);

export const TransferBody = requestBody(
  { from: user, to: user, resource, amount, reason },
  { from: '301330', to: '301331', resource: 'time', amount: 3600, reason: 'moved to another group' },
);

export const RefundBody = requestBody(
  { job_id: Type.String(), amount: quantity(1, 'Seconds.'), reason },
  { job_id: '7B0E5A52-3C1F-4B9D-9A57-0F2B4E6C8D10', amount: 360, reason: 'the file system was down' },
);

export const PeriodBody = requestBody(
  {
    starts: Type.Optional(Type.String({ format: 'date-time', description: 'ISO 8601. Default: now.' })),
    ends: Type.Optional(Type.String({ format: 'date-time', description: 'ISO 8601. Default: no end.' })),
    member_seconds: quantity(0, 'Seconds for each member.'),
    reserve_seconds: quantity(0, 'Seconds for the reserve of the pool.', { default: 0 }),
    reason,
  },
  { ends: '2027-01-01T00:00:00Z', member_seconds: 3_600_000, reason: 'grant of the next year' },
);

export const MemberBody = requestBody(
  { status: memberStatus, role: Type.Optional(memberRole), reason },
  { status: 'active', reason: 'new in the group' },
);

/** For requests without a body. */
export const reasonQuery = { reason };

export const ReasonBody = requestBody({ reason }, { reason: 'maintenance of the system' });

export const RoleBody = requestBody(
  { role: Type.Enum([...siteRoles]), reason },
  { role: 'operator', reason: 'runs the systems' },
);

export const ProjectBody = requestBody(
  {
    name: Type.String({ pattern: patterns.projectName.pattern }),
    auto_join: Type.Boolean({ default: false, description: 'Whether every user becomes a member automatically.' }),
    grant_time_seconds: quantity(0, 'Seconds for each new member.', { default: 0 }),
    grant_space_kb: quantity(0, 'KB for each new member.', { default: 0 }),
    reason,
  },
  { name: 'climate', grant_time_seconds: 3_600_000, reason: 'new in the group' },
);

export const ProjectSchema = namedObject(
  'Project',
  {
    id: Type.Integer(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    auto_join: Type.Boolean(),
    grant_time_seconds: Type.Integer(),
    grant_space_kb: Type.Number(),
    created_at: timestamp,
    closed_at: nullable(timestamp),
  },
  {
    id: 4,
    project_hpc: 'HPC_ONE',
    project_name: 'climate',
    grant_time_seconds: 3_600_000,
    grant_space_kb: 1_000_000,
  },
);

export const MemberSchema = namedObject(
  'Member',
  { user: Type.String(), status: memberStatus, role: memberRole, reason: Type.String(), since: timestamp },
  { user: '301330', status: 'active', role: 'member', reason: 'new in the group' },
);

const userFields = {
  user: Type.String(),
  role: Type.Enum([...siteRoles]),
  name: nullable(Type.String(), 'From the OpenID provider.'),
  mail: nullable(Type.String(), 'From the OpenID provider.'),
  created_at: timestamp,
  disabled_at: nullable(timestamp),
};
const exampleUser = { user: '301330', role: 'user' };

export const UserSchema = namedObject('User', userFields, exampleUser);

export const UserDetailsSchema = namedObject(
  'UserDetails',
  {
    ...userFields,
    identities: Type.Array(
      Type.Object(
        { issuer: Type.String(), subject: Type.String(), linked_at: timestamp },
        { additionalProperties: false },
      ),
      { description: 'The subjects of OpenID providers that are this user.' },
    ),
  },
  {
    ...exampleUser,
    identities: [{ issuer: 'https://login.example.org', subject: 'ada', linked_at: '2026-01-31T12:00:00.000Z' }],
  },
);

export const AuditSchema = namedObject(
  'AuditRecord',
  {
    id: Type.Integer(),
    at: timestamp,
    actor: Type.String({ description: 'The user, or the name that a command was given.' }),
    address: nullable(Type.String(), 'The IP address of the actor. Null on the command line.'),
    token_id: nullable(Type.Integer(), 'The token of Bursar that was used.'),
    session_id: nullable(Type.Integer(), 'The session that was used.'),
    request_id: nullable(Type.String(), 'The X-Request-Id of the request.'),
    action: Type.String(),
    subject: Type.String(),
    details: Type.Object({}, { additionalProperties: Type.Unknown() }),
    hash: Type.String({ description: 'SHA-256 of the record and of the hash of the record before it.' }),
  },
  {
    id: 9,
    actor: '300001',
    address: '192.0.2.7',
    token_id: 7,
    request_id: '6f1c8a52-4e0b-17',
    action: 'project.create',
    subject: 'hpc_one/climate',
    details: { reason: 'new in the group' },
    hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  },
);

export const PeriodSchema = namedObject(
  'Period',
  { id: Type.Integer(), starts: timestamp, ends: nullable(timestamp) },
  { id: 2, starts: '2026-01-01T00:00:00.000Z', ends: '2027-01-01T00:00:00.000Z' },
);
