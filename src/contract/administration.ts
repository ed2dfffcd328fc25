import Type from 'typebox';
import { nullableTimestamp, resource, timestamp } from './fields.ts';

const reason = Type.String({
  maxLength: 500,
  pattern: '\\S\\s*\\S\\s*\\S', // at least three visible characters
  description: 'Reason, kept in the ledger permanently.',
});
const amount = Type.Integer({ minimum: 1, maximum: 1e12, description: 'Seconds of time, or KB of space.' });
const kind = Type.Enum(['top_up', 'withdraw']);
const user = Type.String({ pattern: '^\\d{1,20}$' });
const memberStatus = Type.Enum(['active', 'removed', 'banned']);
const strict = { additionalProperties: false };

const exampleGrant = { kind: 'top_up', resource: 'time', amount: 3600, reason: 'approved by the committee' };

export const PoolGrantBody = Type.Object({ kind, resource, amount, reason }, { ...strict, examples: [exampleGrant] });

export const CapGrantBody = Type.Object(
  {
    kind,
    resource,
    amount,
    reason,
    source: Type.Enum(['new', 'pool'], {
      default: 'new',
      description:
        '`new`: the pool changes by the same amount. `pool`: the amount comes from, or returns to, the reserve of the pool.',
    }),
  },
  { ...strict, examples: [exampleGrant] },
);

export const TransferBody = Type.Object(
  { from: user, to: user, resource, amount, reason },
  {
    ...strict,
    examples: [{ from: '301330', to: '301331', resource: 'time', amount: 3600, reason: 'moved to another group' }],
  },
);

export const RefundBody = Type.Object(
  { job_id: Type.String(), amount: Type.Integer({ minimum: 1, maximum: 1e12, description: 'Seconds.' }), reason },
  {
    ...strict,
    examples: [{ job_id: '7B0E5A52-3C1F-4B9D-9A57-0F2B4E6C8D10', amount: 360, reason: 'the file system was down' }],
  },
);

export const PeriodBody = Type.Object(
  {
    starts: Type.Optional(Type.String({ format: 'date-time', description: 'ISO 8601. Default: now.' })),
    ends: Type.Optional(Type.String({ format: 'date-time', description: 'ISO 8601. Default: no end.' })),
    member_seconds: Type.Integer({ minimum: 0, maximum: 1e12, description: 'Seconds for each member.' }),
    reserve_seconds: Type.Integer({
      minimum: 0,
      maximum: 1e12,
      default: 0,
      description: 'Seconds for the reserve of the pool.',
    }),
    reason,
  },
  {
    ...strict,
    examples: [{ ends: '2027-01-01T00:00:00Z', member_seconds: 3_600_000, reason: 'grant of the next year' }],
  },
);

export const MemberBody = Type.Object(
  { status: memberStatus, reason },
  { ...strict, examples: [{ status: 'active', reason: 'new in the group' }] },
);

export const ReasonBody = Type.Object({ reason }, { ...strict, examples: [{ reason: 'maintenance of the system' }] });

export const ProjectBody = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$' }),
    auto_join: Type.Boolean({ default: false, description: 'Whether every user becomes a member automatically.' }),
    grant_time_seconds: Type.Integer({
      minimum: 0,
      maximum: 1e12,
      default: 0,
      description: 'Seconds for each new member.',
    }),
    grant_space_kb: Type.Integer({ minimum: 0, maximum: 1e12, default: 0, description: 'KB for each new member.' }),
    reason,
  },
  { ...strict, examples: [{ name: 'climate', grant_time_seconds: 3_600_000, reason: 'new in the group' }] },
);

export const ProjectSchema = Type.Object(
  {
    id: Type.Integer(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    auto_join: Type.Boolean(),
    grant_time_seconds: Type.Integer(),
    grant_space_kb: Type.Number(),
    created_at: timestamp,
    closed_at: nullableTimestamp,
  },
  {
    $id: 'Project',
    additionalProperties: false,
    examples: [
      {
        id: 4,
        project_hpc: 'HPC_ONE',
        project_name: 'climate',
        auto_join: false,
        grant_time_seconds: 3_600_000,
        grant_space_kb: 1_000_000,
        created_at: '2026-01-31T12:00:00.000Z',
        closed_at: null,
      },
    ],
  },
);

export const MemberSchema = Type.Object(
  { user: Type.String(), status: memberStatus, reason: Type.String(), since: timestamp },
  {
    $id: 'Member',
    additionalProperties: false,
    examples: [{ user: '301330', status: 'active', reason: 'new in the group', since: '2026-01-31T12:00:00.000Z' }],
  },
);

export const UserSchema = Type.Object(
  { user: Type.String(), role: Type.Enum(['user', 'admin']), created_at: timestamp },
  {
    $id: 'User',
    additionalProperties: false,
    examples: [{ user: '301330', role: 'user', created_at: '2026-01-31T12:00:00.000Z' }],
  },
);

export const AuditSchema = Type.Object(
  {
    id: Type.Integer(),
    at: timestamp,
    actor: Type.String(),
    act: Type.String(),
    subject: Type.String(),
    details: Type.Record(Type.String(), Type.Unknown()),
  },
  {
    $id: 'AuditRecord',
    additionalProperties: false,
    examples: [
      {
        id: 9,
        at: '2026-01-31T12:00:00.000Z',
        actor: '300001',
        act: 'project.create',
        subject: 'hpc_one/climate',
        details: { reason: 'new in the group' },
      },
    ],
  },
);

export const PeriodSchema = Type.Object(
  { id: Type.Integer(), starts: timestamp, ends: nullableTimestamp },
  {
    $id: 'Period',
    additionalProperties: false,
    examples: [{ id: 2, starts: '2026-01-01T00:00:00.000Z', ends: '2027-01-01T00:00:00.000Z' }],
  },
);
