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
const strict = { additionalProperties: false };

export const PoolGrantBody = Type.Object({ kind, resource, amount, reason }, strict);

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
  strict,
);

export const TransferBody = Type.Object({ from: user, to: user, resource, amount, reason }, strict);

export const RefundBody = Type.Object(
  { job_id: Type.String(), amount: Type.Integer({ minimum: 1, maximum: 1e12, description: 'Seconds.' }), reason },
  strict,
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
  strict,
);

export const MemberBody = Type.Object({ status: Type.Enum(['active', 'removed', 'banned']), reason }, strict);

export const ReasonBody = Type.Object({ reason }, strict);

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
  strict,
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
  { $id: 'Project', additionalProperties: false },
);

export const MemberSchema = Type.Object(
  { user: Type.String(), status: Type.String(), reason: Type.String(), since: timestamp },
  { $id: 'Member', additionalProperties: false },
);

export const UserSchema = Type.Object(
  { user: Type.String(), role: Type.String(), created_at: timestamp },
  { $id: 'User', additionalProperties: false },
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
  { $id: 'AuditRecord', additionalProperties: false },
);

export const PeriodSchema = Type.Object(
  { id: Type.Integer(), starts: timestamp, ends: nullableTimestamp },
  { $id: 'Period', additionalProperties: false },
);
