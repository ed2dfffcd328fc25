import Type from 'typebox';
import type { AccessService } from '../../services/identity/access.ts';
import type { SessionService } from '../../services/identity/sessions.ts';
import { operation, operations, others, own } from '../operation.ts';

const sessionList = { 200: Type.Array(Type.Ref('Session')) };

/** The sessions of the caller's browsers, and those of any user for those who may end them. */
export const sessionOperations = (sessions: SessionService, access: Pick<AccessService, 'requireUser'>) =>
  operations('account', {
    listSessions: operation({
      route: 'GET /me/sessions/',
      access: own('sessions.read'),
      summary: 'List your sessions',
      description: 'The browsers in which you are signed in.',
      responses: sessionList,
      handler: ({ caller }) => sessions.list(caller.userId, caller.sessionId),
    }),
    endOtherSessions: operation({
      route: 'DELETE /me/sessions/',
      access: own('sessions.write'),
      summary: 'End your other sessions',
      description: 'All except that of this request. Returns those that were ended. Tokens stay valid.',
      responses: sessionList,
      handler: ({ caller }) => sessions.endOthers(caller, caller.userId),
    }),
    endSession: operation({
      route: 'DELETE /me/sessions/{session_id}/',
      access: own('sessions.write'),
      summary: 'End a session',
      description: 'At once. Its browser must sign in again.',
      responses: { 200: Type.Ref('Session') },
      handler: ({ caller, params }) => sessions.end(caller, params.session_id),
    }),

    listSessionsOfUser: operation({
      route: 'GET /admin/users/{user_id}/sessions/',
      access: others('sessions.read'),
      summary: 'Sessions of a user',
      description: 'The browsers in which the user is signed in.',
      responses: sessionList,
      handler: async ({ caller, params }) => sessions.list(await access.requireUser(params.user_id), caller.sessionId),
    }),
    endSessionsOfUser: operation({
      route: 'DELETE /admin/users/{user_id}/sessions/',
      access: others('sessions.write'),
      summary: 'End all sessions of a user',
      description: 'Except that of this request. Returns those that were ended. Tokens stay valid.',
      responses: sessionList,
      handler: async ({ caller, params }) => sessions.endOthers(caller, await access.requireUser(params.user_id)),
    }),
  });
