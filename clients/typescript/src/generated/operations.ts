// This file is generated from the OpenAPI document by `npm run docs`.
import type * as types from './types.ts';

/** Method, path, kind of the body, kind of the response, and whether a repetition is safe. */
export const operations = {
  getMetrics: ["GET","/metrics","none","text","safe"],
  getLiveness: ["GET","/livez","none","json","safe"],
  getReadiness: ["GET","/readyz","none","json","safe"],
  listJobs: ["GET","/jobs/","none","json","safe"],
  listJobsOnSystem: ["GET","/jobs/{hpc}/","none","json","safe"],
  submitJob: ["POST","/jobs/{hpc}/","zip","json","key"],
  listJobsInProject: ["GET","/jobs/{hpc}/{project_name}/","none","json","safe"],
  submitJobToProject: ["POST","/jobs/{hpc}/{project_name}/","zip","json","key"],
  getJob: ["GET","/jobs/{hpc}/{project_name}/{job_id}/","none","json","safe"],
  deleteJob: ["DELETE","/jobs/{hpc}/{project_name}/{job_id}/","none","json","safe"],
  getJobTimeline: ["GET","/jobs/{hpc}/{project_name}/{job_id}/timeline/","none","json","safe"],
  cancelJob: ["POST","/jobs/{hpc}/{project_name}/{job_id}/cancel/","none","json","key"],
  listJobsOfAllUsers: ["GET","/admin/jobs/","none","json","safe"],
  getJobOfAnyUser: ["GET","/admin/jobs/{hpc}/{project_name}/{job_id}/","none","json","safe"],
  deleteJobOfAnyUser: ["DELETE","/admin/jobs/{hpc}/{project_name}/{job_id}/","none","json","safe"],
  getJobTimelineOfAnyUser: ["GET","/admin/jobs/{hpc}/{project_name}/{job_id}/timeline/","none","json","safe"],
  cancelJobOfAnyUser: ["POST","/admin/jobs/{hpc}/{project_name}/{job_id}/cancel/","json","json","key"],
  listJobSummaries: ["GET","/job-summaries/","none","json","safe"],
  listJobSummariesOfAllUsers: ["GET","/admin/job-summaries/","none","json","safe"],
  getJobLog: ["GET","/jobs/{hpc}/{project_name}/{job_id}/log/","none","text","safe"],
  getJobLogOfAnyUser: ["GET","/admin/jobs/{hpc}/{project_name}/{job_id}/log/","none","text","safe"],
  listJobFiles: ["GET","/files/{hpc}/{project_name}/{job_id}/","none","json","safe"],
  getJobFile: ["GET","/files/{hpc}/{project_name}/{job_id}/{path}","none","response","safe"],
  listJobFilesOfAnyUser: ["GET","/admin/files/{hpc}/{project_name}/{job_id}/","none","json","safe"],
  getJobFileOfAnyUser: ["GET","/admin/files/{hpc}/{project_name}/{job_id}/{path}","none","response","safe"],
  listQuotas: ["GET","/quotas/","none","json","safe"],
  listQuotasOnSystem: ["GET","/quotas/{hpc}/","none","json","safe"],
  getQuota: ["GET","/quotas/{hpc}/{project_name}/","none","json","safe"],
  listQuotasOfUser: ["GET","/admin/quotas/{user_id}/","none","json","safe"],
  listQuotasOnSystemOfUser: ["GET","/admin/quotas/{user_id}/{hpc}/","none","json","safe"],
  getQuotaOfUser: ["GET","/admin/quotas/{user_id}/{hpc}/{project_name}/","none","json","safe"],
  listQuotasOfAllUsers: ["GET","/admin/quotas/","none","json","safe"],
  listAccounts: ["GET","/accounts/","none","json","safe"],
  listAccountsOfUser: ["GET","/admin/accounts/{user_id}/","none","json","safe"],
  listAccountsOfProject: ["GET","/admin/projects/{hpc}/{project_name}/accounts/","none","json","safe"],
  getQuote: ["POST","/quotes/{hpc}/","none","json","safe"],
  getQuoteInProject: ["POST","/quotes/{hpc}/{project_name}/","none","json","safe"],
  getStatement: ["GET","/quotas/{hpc}/{project_name}/statement/","none","json","safe"],
  getStatementOfUser: ["GET","/admin/quotas/{user_id}/{hpc}/{project_name}/statement/","none","json","safe"],
  getUsage: ["GET","/usage/","none","json","safe"],
  getUsageOfUser: ["GET","/admin/usage/{user_id}/","none","json","safe"],
  getUsageOfAllUsers: ["GET","/admin/usage/","none","json","safe"],
  listSystems: ["GET","/hpc/","none","json","safe"],
  getSystem: ["GET","/hpc/{hpc}/","none","json","safe"],
  listSystemsForAdministrators: ["GET","/admin/systems/","none","json","safe"],
  getSystemForAdministrators: ["GET","/admin/systems/{hpc}/","none","json","safe"],
  pauseSystem: ["POST","/admin/systems/{hpc}/pause/","json","json","key"],
  resumeSystem: ["POST","/admin/systems/{hpc}/resume/","json","json","key"],
  listEvents: ["GET","/events/","none","json","safe"],
  listEventsOfUser: ["GET","/admin/events/{user_id}/","none","json","safe"],
  listWebhooks: ["GET","/webhooks/","none","json","safe"],
  createWebhook: ["POST","/webhooks/","json","json","key"],
  getWebhook: ["GET","/webhooks/{webhook_id}/","none","json","safe"],
  changeWebhook: ["PATCH","/webhooks/{webhook_id}/","json","json","never"],
  deleteWebhook: ["DELETE","/webhooks/{webhook_id}/","none","json","safe"],
  rotateWebhookSecret: ["POST","/webhooks/{webhook_id}/secret/","none","json","key"],
  testWebhook: ["POST","/webhooks/{webhook_id}/test/","none","json","key"],
  listDeliveries: ["GET","/webhooks/{webhook_id}/deliveries/","none","json","safe"],
  getDelivery: ["GET","/webhooks/{webhook_id}/deliveries/{delivery_id}/","none","json","safe"],
  resendDelivery: ["POST","/webhooks/{webhook_id}/deliveries/{delivery_id}/send/","none","json","key"],
  listWebhooksOfUser: ["GET","/admin/webhooks/{user_id}/","none","json","safe"],
  listWebhooksOfAllUsers: ["GET","/admin/webhooks/","none","json","safe"],
  disableWebhook: ["POST","/admin/webhooks/{user_id}/{webhook_id}/disable/","json","json","key"],
  enableWebhook: ["POST","/admin/webhooks/{user_id}/{webhook_id}/enable/","json","json","key"],
  getMe: ["GET","/me/","none","json","safe"],
  listTokens: ["GET","/me/tokens/","none","json","safe"],
  createToken: ["POST","/me/tokens/","json","json","key"],
  revokeToken: ["DELETE","/me/tokens/{token_id}/","none","json","safe"],
  listSessions: ["GET","/me/sessions/","none","json","safe"],
  endOtherSessions: ["DELETE","/me/sessions/","none","json","safe"],
  endSession: ["DELETE","/me/sessions/{session_id}/","none","json","safe"],
  listTokensOfUser: ["GET","/admin/users/{user_id}/tokens/","none","json","safe"],
  revokeTokensOfUser: ["DELETE","/admin/users/{user_id}/tokens/","none","json","safe"],
  revokeTokenOfUser: ["DELETE","/admin/users/{user_id}/tokens/{token_id}/","none","json","safe"],
  listSessionsOfUser: ["GET","/admin/users/{user_id}/sessions/","none","json","safe"],
  endSessionsOfUser: ["DELETE","/admin/users/{user_id}/sessions/","none","json","safe"],
  listUsers: ["GET","/admin/users/","none","json","safe"],
  getUser: ["GET","/admin/users/{user_id}/","none","json","safe"],
  disableUser: ["POST","/admin/users/{user_id}/disable/","json","json","key"],
  enableUser: ["POST","/admin/users/{user_id}/enable/","json","json","key"],
  setUserRole: ["PUT","/admin/users/{user_id}/role/","json","json","safe"],
  changePool: ["POST","/admin/grants/{hpc}/{project_name}/","json","json","key"],
  transferGrant: ["POST","/admin/grants/{hpc}/{project_name}/transfers/","json","json","key"],
  refundJob: ["POST","/admin/grants/{hpc}/{project_name}/refunds/","json","json","key"],
  openPeriod: ["POST","/admin/grants/{hpc}/{project_name}/periods/","json","json","key"],
  changeMemberQuota: ["POST","/admin/grants/{hpc}/{project_name}/members/{user_id}/","json","json","key"],
  listProjects: ["GET","/admin/projects/","none","json","safe"],
  listProjectsOnSystem: ["GET","/admin/projects/{hpc}/","none","json","safe"],
  createProject: ["POST","/admin/projects/{hpc}/","json","json","key"],
  closeProject: ["POST","/admin/projects/{hpc}/{project_name}/close/","json","json","key"],
  listMembers: ["GET","/admin/projects/{hpc}/{project_name}/members/","none","json","safe"],
  setMember: ["PUT","/admin/projects/{hpc}/{project_name}/members/{user_id}/","json","json","safe"],
  verifyLedger: ["GET","/admin/ledger/verification/","none","json","safe"],
  listAuditRecords: ["GET","/admin/audit/","none","json","safe"],
  signOut: ["POST","/sign-out/","form","json","never"],
  getSignInOptions: ["GET","/sign-in/options/","none","json","safe"],
  getAuthorizationServer: ["GET","/.well-known/oauth-authorization-server","none","json","safe"],
  startDeviceAuthorization: ["POST","/oauth/device/","form","json","never"],
  pollDeviceToken: ["POST","/oauth/token/","form","json","never"],
  listClients: ["GET","/clients/","none","json","safe"],
  getClient: ["GET","/clients/{name}","none","response","safe"],
} as const;

/** The types of each operation. */
export interface OperationTypes {
  getMetrics: { data: types.GetMetricsData; body: 'none'; result: string };
  getLiveness: { data: types.GetLivenessData; body: 'none'; result: types.GetLivenessResponse };
  getReadiness: { data: types.GetReadinessData; body: 'none'; result: types.GetReadinessResponse };
  listJobs: { data: types.ListJobsData; body: 'none'; result: types.ListJobsResponse };
  listJobsOnSystem: { data: types.ListJobsOnSystemData; body: 'none'; result: types.ListJobsOnSystemResponse };
  submitJob: { data: types.SubmitJobData; body: 'zip'; result: types.SubmitJobResponse };
  listJobsInProject: { data: types.ListJobsInProjectData; body: 'none'; result: types.ListJobsInProjectResponse };
  submitJobToProject: { data: types.SubmitJobToProjectData; body: 'zip'; result: types.SubmitJobToProjectResponse };
  getJob: { data: types.GetJobData; body: 'none'; result: types.GetJobResponse };
  deleteJob: { data: types.DeleteJobData; body: 'none'; result: types.DeleteJobResponse };
  getJobTimeline: { data: types.GetJobTimelineData; body: 'none'; result: types.GetJobTimelineResponse };
  cancelJob: { data: types.CancelJobData; body: 'none'; result: types.CancelJobResponse };
  listJobsOfAllUsers: { data: types.ListJobsOfAllUsersData; body: 'none'; result: types.ListJobsOfAllUsersResponse };
  getJobOfAnyUser: { data: types.GetJobOfAnyUserData; body: 'none'; result: types.GetJobOfAnyUserResponse };
  deleteJobOfAnyUser: { data: types.DeleteJobOfAnyUserData; body: 'none'; result: types.DeleteJobOfAnyUserResponse };
  getJobTimelineOfAnyUser: { data: types.GetJobTimelineOfAnyUserData; body: 'none'; result: types.GetJobTimelineOfAnyUserResponse };
  cancelJobOfAnyUser: { data: types.CancelJobOfAnyUserData; body: 'json'; result: types.CancelJobOfAnyUserResponse };
  listJobSummaries: { data: types.ListJobSummariesData; body: 'none'; result: types.ListJobSummariesResponse };
  listJobSummariesOfAllUsers: { data: types.ListJobSummariesOfAllUsersData; body: 'none'; result: types.ListJobSummariesOfAllUsersResponse };
  getJobLog: { data: types.GetJobLogData; body: 'none'; result: string };
  getJobLogOfAnyUser: { data: types.GetJobLogOfAnyUserData; body: 'none'; result: string };
  listJobFiles: { data: types.ListJobFilesData; body: 'none'; result: types.ListJobFilesResponse };
  getJobFile: { data: types.GetJobFileData; body: 'none'; result: Response };
  listJobFilesOfAnyUser: { data: types.ListJobFilesOfAnyUserData; body: 'none'; result: types.ListJobFilesOfAnyUserResponse };
  getJobFileOfAnyUser: { data: types.GetJobFileOfAnyUserData; body: 'none'; result: Response };
  listQuotas: { data: types.ListQuotasData; body: 'none'; result: types.ListQuotasResponse };
  listQuotasOnSystem: { data: types.ListQuotasOnSystemData; body: 'none'; result: types.ListQuotasOnSystemResponse };
  getQuota: { data: types.GetQuotaData; body: 'none'; result: types.GetQuotaResponse };
  listQuotasOfUser: { data: types.ListQuotasOfUserData; body: 'none'; result: types.ListQuotasOfUserResponse };
  listQuotasOnSystemOfUser: { data: types.ListQuotasOnSystemOfUserData; body: 'none'; result: types.ListQuotasOnSystemOfUserResponse };
  getQuotaOfUser: { data: types.GetQuotaOfUserData; body: 'none'; result: types.GetQuotaOfUserResponse };
  listQuotasOfAllUsers: { data: types.ListQuotasOfAllUsersData; body: 'none'; result: types.ListQuotasOfAllUsersResponse };
  listAccounts: { data: types.ListAccountsData; body: 'none'; result: types.ListAccountsResponse };
  listAccountsOfUser: { data: types.ListAccountsOfUserData; body: 'none'; result: types.ListAccountsOfUserResponse };
  listAccountsOfProject: { data: types.ListAccountsOfProjectData; body: 'none'; result: types.ListAccountsOfProjectResponse };
  getQuote: { data: types.GetQuoteData; body: 'none'; result: types.GetQuoteResponse };
  getQuoteInProject: { data: types.GetQuoteInProjectData; body: 'none'; result: types.GetQuoteInProjectResponse };
  getStatement: { data: types.GetStatementData; body: 'none'; result: types.GetStatementResponse };
  getStatementOfUser: { data: types.GetStatementOfUserData; body: 'none'; result: types.GetStatementOfUserResponse };
  getUsage: { data: types.GetUsageData; body: 'none'; result: types.GetUsageResponse };
  getUsageOfUser: { data: types.GetUsageOfUserData; body: 'none'; result: types.GetUsageOfUserResponse };
  getUsageOfAllUsers: { data: types.GetUsageOfAllUsersData; body: 'none'; result: types.GetUsageOfAllUsersResponse };
  listSystems: { data: types.ListSystemsData; body: 'none'; result: types.ListSystemsResponse };
  getSystem: { data: types.GetSystemData; body: 'none'; result: types.GetSystemResponse };
  listSystemsForAdministrators: { data: types.ListSystemsForAdministratorsData; body: 'none'; result: types.ListSystemsForAdministratorsResponse };
  getSystemForAdministrators: { data: types.GetSystemForAdministratorsData; body: 'none'; result: types.GetSystemForAdministratorsResponse };
  pauseSystem: { data: types.PauseSystemData; body: 'json'; result: types.PauseSystemResponse };
  resumeSystem: { data: types.ResumeSystemData; body: 'json'; result: types.ResumeSystemResponse };
  listEvents: { data: types.ListEventsData; body: 'none'; result: types.ListEventsResponse };
  listEventsOfUser: { data: types.ListEventsOfUserData; body: 'none'; result: types.ListEventsOfUserResponse };
  listWebhooks: { data: types.ListWebhooksData; body: 'none'; result: types.ListWebhooksResponse };
  createWebhook: { data: types.CreateWebhookData; body: 'json'; result: types.CreateWebhookResponse };
  getWebhook: { data: types.GetWebhookData; body: 'none'; result: types.GetWebhookResponse };
  changeWebhook: { data: types.ChangeWebhookData; body: 'json'; result: types.ChangeWebhookResponse };
  deleteWebhook: { data: types.DeleteWebhookData; body: 'none'; result: types.DeleteWebhookResponse };
  rotateWebhookSecret: { data: types.RotateWebhookSecretData; body: 'none'; result: types.RotateWebhookSecretResponse };
  testWebhook: { data: types.TestWebhookData; body: 'none'; result: types.TestWebhookResponse };
  listDeliveries: { data: types.ListDeliveriesData; body: 'none'; result: types.ListDeliveriesResponse };
  getDelivery: { data: types.GetDeliveryData; body: 'none'; result: types.GetDeliveryResponse };
  resendDelivery: { data: types.ResendDeliveryData; body: 'none'; result: types.ResendDeliveryResponse };
  listWebhooksOfUser: { data: types.ListWebhooksOfUserData; body: 'none'; result: types.ListWebhooksOfUserResponse };
  listWebhooksOfAllUsers: { data: types.ListWebhooksOfAllUsersData; body: 'none'; result: types.ListWebhooksOfAllUsersResponse };
  disableWebhook: { data: types.DisableWebhookData; body: 'json'; result: types.DisableWebhookResponse };
  enableWebhook: { data: types.EnableWebhookData; body: 'json'; result: types.EnableWebhookResponse };
  getMe: { data: types.GetMeData; body: 'none'; result: types.GetMeResponse };
  listTokens: { data: types.ListTokensData; body: 'none'; result: types.ListTokensResponse };
  createToken: { data: types.CreateTokenData; body: 'json'; result: types.CreateTokenResponse };
  revokeToken: { data: types.RevokeTokenData; body: 'none'; result: types.RevokeTokenResponse };
  listSessions: { data: types.ListSessionsData; body: 'none'; result: types.ListSessionsResponse };
  endOtherSessions: { data: types.EndOtherSessionsData; body: 'none'; result: types.EndOtherSessionsResponse };
  endSession: { data: types.EndSessionData; body: 'none'; result: types.EndSessionResponse };
  listTokensOfUser: { data: types.ListTokensOfUserData; body: 'none'; result: types.ListTokensOfUserResponse };
  revokeTokensOfUser: { data: types.RevokeTokensOfUserData; body: 'none'; result: types.RevokeTokensOfUserResponse };
  revokeTokenOfUser: { data: types.RevokeTokenOfUserData; body: 'none'; result: types.RevokeTokenOfUserResponse };
  listSessionsOfUser: { data: types.ListSessionsOfUserData; body: 'none'; result: types.ListSessionsOfUserResponse };
  endSessionsOfUser: { data: types.EndSessionsOfUserData; body: 'none'; result: types.EndSessionsOfUserResponse };
  listUsers: { data: types.ListUsersData; body: 'none'; result: types.ListUsersResponse };
  getUser: { data: types.GetUserData; body: 'none'; result: types.GetUserResponse };
  disableUser: { data: types.DisableUserData; body: 'json'; result: types.DisableUserResponse };
  enableUser: { data: types.EnableUserData; body: 'json'; result: types.EnableUserResponse };
  setUserRole: { data: types.SetUserRoleData; body: 'json'; result: types.SetUserRoleResponse };
  changePool: { data: types.ChangePoolData; body: 'json'; result: types.ChangePoolResponse };
  transferGrant: { data: types.TransferGrantData; body: 'json'; result: types.TransferGrantResponse };
  refundJob: { data: types.RefundJobData; body: 'json'; result: types.RefundJobResponse };
  openPeriod: { data: types.OpenPeriodData; body: 'json'; result: types.OpenPeriodResponse };
  changeMemberQuota: { data: types.ChangeMemberQuotaData; body: 'json'; result: types.ChangeMemberQuotaResponse };
  listProjects: { data: types.ListProjectsData; body: 'none'; result: types.ListProjectsResponse };
  listProjectsOnSystem: { data: types.ListProjectsOnSystemData; body: 'none'; result: types.ListProjectsOnSystemResponse };
  createProject: { data: types.CreateProjectData; body: 'json'; result: types.CreateProjectResponse };
  closeProject: { data: types.CloseProjectData; body: 'json'; result: types.CloseProjectResponse };
  listMembers: { data: types.ListMembersData; body: 'none'; result: types.ListMembersResponse };
  setMember: { data: types.SetMemberData; body: 'json'; result: types.SetMemberResponse };
  verifyLedger: { data: types.VerifyLedgerData; body: 'none'; result: types.VerifyLedgerResponse };
  listAuditRecords: { data: types.ListAuditRecordsData; body: 'none'; result: types.ListAuditRecordsResponse };
  signOut: { data: types.SignOutData; body: 'form'; result: types.SignOutResponse };
  getSignInOptions: { data: types.GetSignInOptionsData; body: 'none'; result: types.GetSignInOptionsResponse };
  getAuthorizationServer: { data: types.GetAuthorizationServerData; body: 'none'; result: types.GetAuthorizationServerResponse };
  startDeviceAuthorization: { data: types.StartDeviceAuthorizationData; body: 'form'; result: types.StartDeviceAuthorizationResponse };
  pollDeviceToken: { data: types.PollDeviceTokenData; body: 'form'; result: types.PollDeviceTokenResponse };
  listClients: { data: types.ListClientsData; body: 'none'; result: types.ListClientsResponse };
  getClient: { data: types.GetClientData; body: 'none'; result: Response };
}
