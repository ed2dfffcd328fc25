import Type, { type Static } from 'typebox';
import { flag, optionalText, section } from '../engines/settings.ts';

const Claims = section(
  'The claims that describe a user. A dot leads into an object, as in `realm_access.roles`; a claim of that very name has precedence.',
  {
    user: optionalText(
      'Claim with a numeric user identifier. Default: Bursar assigns an identifier at the first request.',
    ),
    name: Type.String({ minLength: 1, default: 'name', description: 'Claim with the name of the person.' }),
    mail: Type.String({ minLength: 1, default: 'email', description: 'Claim with the mail address.' }),
    groups: optionalText('Claim with the groups, a text or a list. Needed for `roles` and `projects`.'),
  },
);

const GroupProject = Type.Union([
  Type.String(),
  Type.Object(
    { project: Type.String(), role: Type.Optional(Type.Enum(['member', 'manager'])) },
    { additionalProperties: false },
  ),
]);

export const OidcProvider = Type.Object(
  {
    issuer: Type.String({
      pattern: '^https?://',
      description: 'Issuer URL, exactly as in the `iss` claim. Its endpoints and keys are discovered.',
    }),
    name: optionalText('Name for people. Default: the host of the issuer.', { maxLength: 60 }),
    audience: Type.String({ minLength: 1, description: 'Required value of the `aud` claim of access tokens.' }),
    clientId: optionalText('Client identifier of Bursar at the issuer.'),
    clientSecret: optionalText('Secret of the client. Not needed by a public client.'),
    deviceClientId: optionalText('Public client with which programs ask the issuer for a token, by its device flow.'),
    clients: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        description:
          'Clients whose access tokens are accepted, by the claim `azp` or `client_id`. Default: all clients that the ' +
          'issuer gives a token for the audience.',
      }),
    ),
    scopes: Type.String({
      pattern: '(^| )openid( |$)',
      default: 'openid profile email',
      description: 'Scopes that Bursar requests when a person signs in.',
    }),
    introspection: flag(
      false,
      'Whether tokens that are no JWT are checked by the introspection endpoint (RFC 7662). Needs `clientId` and `clientSecret`.',
    ),
    claims: Claims,
    roles: Type.Optional(
      Type.Record(Type.String({ minLength: 1 }), Type.Enum(['auditor', 'operator', 'administrator']), {
        minProperties: 1,
        description:
          'Role of each group; the highest one counts. The groups then decide, and nobody can change the role of these ' +
          'users in Bursar. Default: administrators of Bursar decide.',
      }),
    ),
    projects: Type.Record(Type.String({ minLength: 1 }), GroupProject, {
      default: {},
      description:
        'Project of each group, whose users become members: `hpc_one/climate`, or ' +
        '`{ project: hpc_one/climate, role: manager }`.',
    }),
    syncMemberships: flag(
      false,
      'Whether users leave the projects that they joined by a group when they are no longer in the group.',
    ),
  },
  { additionalProperties: false },
);

export type OidcConfig = Static<typeof OidcProvider>;
