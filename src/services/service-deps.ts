import type { LedgerVerification } from '../store/ledger/verify-ledger.ts';
import type { GrantDeps } from './accounting/grants.ts';
import type { ClientPackageDeps } from './client-packages.ts';
import type { EventDeps } from './events/read-events.ts';
import type { WebhookDeps } from './events/webhooks.ts';
import type { TokenDeps } from './identity/account.ts';
import type { AuthenticationDeps } from './identity/authenticate.ts';
import type { OpenIdSignInDeps } from './identity/openid-sign-in.ts';
import type { CancelJobDeps } from './jobs/cancel-job.ts';
import type { DeleteJobDeps } from './jobs/delete-job.ts';
import type { JobSummaryDeps } from './jobs/job-summaries.ts';
import type { OpenFileDeps } from './jobs/read-files.ts';
import type { LogDeps } from './jobs/read-log.ts';
import type { SubmissionDeps } from './jobs/submit-job.ts';
import type { SystemDeps } from './systems/read-systems.ts';

/** What the use cases need, in one object. Each use case is a function that takes its part of it first. */
export interface ServiceDeps
  extends SubmissionDeps,
    CancelJobDeps,
    DeleteJobDeps,
    JobSummaryDeps,
    OpenFileDeps,
    LogDeps,
    EventDeps,
    WebhookDeps,
    GrantDeps,
    AuthenticationDeps,
    TokenDeps,
    OpenIdSignInDeps,
    SystemDeps,
    ClientPackageDeps {
  verifyLedger(): Promise<LedgerVerification>;
}
