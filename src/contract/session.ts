import Type from 'typebox';
import { nullableString, timestamp } from './fields.ts';

export const SessionSchema = Type.Object(
  {
    id: Type.Integer(),
    created_at: timestamp,
    last_used_at: timestamp,
    expires_at: Type.String({ format: 'date-time', description: 'When it ends if it is not used until then.' }),
    address: Type.String({ description: 'The address from which the user signed in.' }),
    user_agent: Type.String({ description: 'The browser, as it names itself.' }),
    issuer: nullableString('The OpenID provider where the user signed in; null for a sign-in link.'),
    current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  },
  {
    $id: 'Session',
    additionalProperties: false,
    examples: [
      {
        id: 12,
        created_at: '2026-01-31T12:00:00.000Z',
        last_used_at: '2026-01-31T13:00:00.000Z',
        expires_at: '2026-02-01T01:00:00.000Z',
        address: '192.0.2.7',
        user_agent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
        issuer: null,
        current: true,
      },
    ],
  },
);
