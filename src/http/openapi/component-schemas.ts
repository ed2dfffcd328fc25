import Type, { type TSchema } from 'typebox';
import { MeSchema, TokenSchema, TokenWithSecretSchema } from '../../contract/account.ts';
import {
  AuditSchema,
  MemberSchema,
  PeriodSchema,
  ProjectSchema,
  UserDetailsSchema,
  UserSchema,
} from '../../contract/administration.ts';
import { ClientPackageSchema } from '../../contract/client-package.ts';
import { EventPageSchema, EventSchema, EventTypeSchema } from '../../contract/event.ts';
import { FileSchema } from '../../contract/file.ts';
import { JobSchema, OutcomeSchema } from '../../contract/job.ts';
import { JobSummaryPageSchema, JobSummarySchema } from '../../contract/job-summary.ts';
import { LedgerVerificationSchema, QuoteSchema, UsageSchema } from '../../contract/ledger.ts';
import { AccountSchema, ProjectAccountSchema } from '../../contract/ledger-account.ts';
import {
  AuthorizationServerSchema,
  DeviceAuthorizationSchema,
  OAuthErrorSchema,
  OAuthTokenSchema,
  SignInOptionsSchema,
} from '../../contract/oauth.ts';
import { BatchPayloadSchema, PayloadSchema, ToolPayloadSchema } from '../../contract/payload.ts';
import { QuotaSchema } from '../../contract/quota.ts';
import { SessionSchema } from '../../contract/session.ts';
import { StatementSchema } from '../../contract/statement.ts';
import { SystemSchema } from '../../contract/system.ts';
import { GrantedRequestSchema, TimelineSchema } from '../../contract/timeline.ts';
import { DeliverySchema, WebhookSchema, WebhookWithSecretSchema } from '../../contract/webhook.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import { ErrorCodeSchema, ProblemSchema } from '../response/problem.ts';

/** The schemas with a name. Generated clients have a type for each of them. */
export const componentSchemas: TSchema[] = [
  JobSchema,
  JobSummarySchema,
  JobSummaryPageSchema,
  OutcomeSchema,
  PayloadSchema,
  BatchPayloadSchema,
  ToolPayloadSchema,
  QuotaSchema,
  ProblemSchema,
  ErrorCodeSchema,
  QuoteSchema,
  StatementSchema,
  UsageSchema,
  AccountSchema,
  ProjectAccountSchema,
  LedgerVerificationSchema,
  ProjectSchema,
  MemberSchema,
  UserSchema,
  UserDetailsSchema,
  MeSchema,
  TokenSchema,
  TokenWithSecretSchema,
  SessionSchema,
  SignInOptionsSchema,
  AuthorizationServerSchema,
  DeviceAuthorizationSchema,
  OAuthTokenSchema,
  OAuthErrorSchema,
  AuditSchema,
  PeriodSchema,
  SystemSchema,
  FileSchema,
  EventSchema,
  EventTypeSchema,
  EventPageSchema,
  GrantedRequestSchema,
  TimelineSchema,
  WebhookSchema,
  WebhookWithSecretSchema,
  DeliverySchema,
  ClientPackageSchema,
];

/** Stages are configured, in the words of each HPC system. */
export function stageSchema(systems: readonly HpcSystem[]): TSchema {
  const names = new Set(systems.flatMap(({ stages }) => Object.values(stages)));
  const words = systems.map(({ name, stages }) => `${name}: ${Object.values(stages).join(', ')}`);
  return Type.Enum([...names], { $id: 'Stage', description: `Stage of a job. ${words.join('; ')}.` });
}
