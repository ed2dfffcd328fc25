import Type from 'typebox';
import { siteRoles, tokenScopes } from '../domain/identity/policy.ts';
import { namedObject, nullable, patterns, requestBody, time, timestamp } from './fields.ts';

const scopes = Type.Array(Type.Enum([...tokenScopes]), { minItems: 1, uniqueItems: true });
const hpc = nullable(Type.String(), 'The token can be used for this system only.');
const project = nullable(Type.String(), 'The token can be used for this project only.');

const tokenFields = {
  id: Type.Integer(),
  name: Type.String(),
  scopes,
  hpc,
  project_name: project,
  created_at: timestamp,
  expires_at: nullable(timestamp),
  last_used_on: nullable(Type.String(), 'The last day, in UTC, on which the token was used.'),
  last_used_from: nullable(Type.String(), 'The address from which it was used then.'),
  state: Type.Enum(['valid', 'expired', 'revoked']),
};
const exampleToken = {
  id: 7,
  name: 'notebook',
  scopes: ['jobs:read', 'jobs:write'],
  expires_at: '2026-05-01T12:00:00.000Z',
  last_used_on: '2026-02-01',
  last_used_from: '192.0.2.7',
};

export const TokenSchema = namedObject('Token', tokenFields, exampleToken);

export const TokenWithSecretSchema = namedObject(
  'TokenWithSecret',
  { ...tokenFields, token: Type.String({ description: 'The token itself. It is shown only once.' }) },
  { ...exampleToken, token: 'bursar_…' },
);

export const TokenBody = requestBody(
  {
    name: Type.String({ minLength: 1, maxLength: 100, pattern: patterns.visibleText.pattern }),
    scopes: Type.Optional(scopes),
    hpc: Type.Optional(Type.String({ description: 'Only for this system.' })),
    project_name: Type.Optional(Type.String({ description: 'Only for this project. Needs `hpc`.' })),
    days: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 36_500, description: 'Life in days. Default: `tokens.defaultDays`.' }),
    ),
  },
  { name: 'notebook', scopes: ['jobs:read', 'jobs:write'], days: 30 },
);

export const MeSchema = namedObject(
  'Me',
  {
    user: Type.String(),
    name: nullable(Type.String(), 'From the OpenID provider.'),
    mail: nullable(Type.String(), 'From the OpenID provider.'),
    roles: Type.Array(Type.Enum([...siteRoles, 'project_manager'])),
    scopes: Type.Array(Type.Enum([...tokenScopes]), { description: 'Of the token of this request.' }),
    expires_at: nullable(time, 'When the token of this request expires.'),
    projects: Type.Array(
      Type.Object(
        {
          project_hpc: Type.String(),
          project_name: Type.String(),
          role: Type.Enum(['member', 'manager']),
          status: Type.Enum(['active', 'removed', 'banned']),
        },
        { additionalProperties: false },
      ),
    ),
  },
  {
    user: '301330',
    roles: ['user'],
    scopes: ['jobs:read', 'jobs:write'],
    expires_at: '2026-05-01T12:00:00.000Z',
    projects: [{ project_hpc: 'HPC_ONE', project_name: 'climate', role: 'member', status: 'active' }],
  },
);

export const SessionSchema = namedObject(
  'Session',
  {
    id: Type.Integer(),
    created_at: timestamp,
    last_used_at: timestamp,
    expires_at: Type.String({ format: 'date-time', description: 'When it ends if it is not used until then.' }),
    address: Type.String({ description: 'The address from which the user signed in.' }),
    user_agent: Type.String({ description: 'The browser, as it names itself.' }),
    issuer: nullable(Type.String(), 'The OpenID provider where the user signed in; null for a sign-in link.'),
    current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  },
  {
    id: 12,
    last_used_at: '2026-01-31T13:00:00.000Z',
    expires_at: '2026-02-01T01:00:00.000Z',
    address: '192.0.2.7',
    user_agent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
    current: true,
  },
);
