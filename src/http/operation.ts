import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TObject, TProperties, TSchema } from 'typebox';
import type { Action, OthersAction, OwnAction, ResourceOwner } from '../domain/identity/policy.ts';
import type { Caller } from '../services/identity/actor.ts';
import type { Params } from './request/path-params.ts';
import type { RequestDeclaration } from './request/validation.ts';
import type { HeaderName } from './response/headers.ts';

/** The action of an operation, in the terms of the policy, and whose resources it acts on. */
export interface RouteAccess {
  action: Action;
  owner: ResourceOwner;
}

export const own = (action: OwnAction): RouteAccess => ({ action, owner: 'caller' });
export const others = (action: OthersAction): RouteAccess => ({ action, owner: 'anyone' });

/** `public` and `probe` need no token, and differ in their rate limit. */
export type Access = RouteAccess | 'public' | 'probe';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A response by its schema alone, or with everything that the OpenAPI document says about it. */
export interface ResponseDescription {
  description: string;
  headers?: readonly HeaderName[];
  /** Empty for a response without a body. */
  content: Record<string, { schema: TSchema; example?: unknown }>;
}
export type Responses = Record<number, TSchema | ResponseDescription>;

// biome-ignore lint/complexity/noBannedTypes: without a declared query, the query has no parameters
type None = {};

/** A request whose query and body were checked. */
export type RouteRequest<
  Route extends string = string,
  Query extends TProperties = None,
  Body extends TSchema = TSchema,
> = FastifyRequest & { params: Params<Route>; query: Static<TObject<Query>>; body: Static<Body> };

/** The request of an operation that needs a token. */
export type CallerRequest<Route extends string = string, Query extends TProperties = None> = RouteRequest<
  Route,
  Query
> & { caller: Caller };

/** The part of a declaration that the server needs to serve requests. Everything that is declared here is checked before the handler runs. */
export interface RouteOptions<
  Route extends string = string,
  A extends Access = Access,
  Query extends TProperties = TProperties,
  Body extends TSchema = TSchema,
> extends RequestDeclaration {
  /** Method and path. A parameter `{path}` at the end is the rest of the path. HEAD belongs to GET. */
  route: Route & `${Method} /${string}`;
  access: A;
  query?: Query;
  body?: Body;
  form?: Body;
  /** The body is the zip of a submission, which the handler reads as it arrives. */
  zip?: true;
  /** No cache may keep the response, because it has a secret. */
  noStore?: true;
  /** How errors are shown: by default as problem documents. `oauth`: those of the parameters as in RFC 6749. */
  errors?: 'problem' | 'page' | 'oauth';
  /** Runs before the query and the body are checked. Throws to refuse the request. */
  onRequest?(request: FastifyRequest, reply: FastifyReply): void;
  /**
   * The result is sent as JSON, with the first status of the responses; with an entity tag, if one of them is 304. A text is JSON
   * already.
   */
  handler(
    request: NoInfer<RouteRequest<Route, Query, Body> & (A extends RouteAccess ? { caller: Caller } : unknown)>,
    reply: FastifyReply,
  ): unknown;
}

/** One operation of the API. Its route, its checks and its entry in the OpenAPI document come from this declaration. */
interface OperationOptions<R extends string, A extends Access, Q extends TProperties, B extends TSchema>
  extends RouteOptions<R, A, Q, B> {
  summary: string;
  description: string;
  responses: Responses;
  /** Headers that the handler checks itself, because the rules depend on more than the request. */
  checkedHeaders?: TProperties;
  /** The credential that a public operation checks itself: a bearer token of its own, or the session of a browser. */
  checks?: 'bearer' | 'session';
}

export type OperationDeclaration = OperationOptions<string, Access, TProperties, TSchema>;
/** An operation with its id, of which generated clients make the name of a function. */
export type Operation = OperationDeclaration & { id: string; tag: string };
/** `RouteOptions` alone: a route that is not in the OpenAPI document. */
export type Route = Operation | RouteOptions;

export const operation = <
  const R extends string,
  A extends Access,
  Q extends TProperties = None,
  B extends TSchema = TSchema,
>(
  options: OperationOptions<R, A, Q, B>,
) => options as unknown as OperationDeclaration;

/** The operations of a subject by their ids. Those on resources of others are tagged `administration`. */
export function operations(tag: string, declared: Record<string, OperationDeclaration>): Operation[] {
  return Object.entries(declared).map(([id, options]) => {
    const { access } = options;
    const isAdministration = typeof access === 'object' && access.owner === 'anyone';
    return { ...options, id, tag: isAdministration ? 'administration' : tag };
  });
}

/** A page for people, or another route without a token that is not in the OpenAPI document. */
export const page = <const R extends string, Q extends TProperties = None, B extends TSchema = TSchema>(
  options: Omit<RouteOptions<R, 'public', Q, B>, 'access'>,
) => ({ errors: 'page', ...options, access: 'public' }) as unknown as RouteOptions;

export const isOperation = (route: Route): route is Operation => 'id' in route;

/** JSON, with more than its schema. */
export function json(schema: TSchema, description: string, headers: readonly HeaderName[] = []): ResponseDescription {
  return { description, headers, content: { 'application/json': { schema } } };
}

/** JSON with an entity tag, or 304 for a caller that has this version. */
export function versioned(schema: TSchema, description: string, headers: readonly HeaderName[] = []) {
  return { 200: json(schema, description, ['ETag', ...headers]), 304: notModified };
}

export const notModified: ResponseDescription = {
  description: 'Not changed since the version in `If-None-Match`.',
  headers: ['ETag'],
  content: {},
};
