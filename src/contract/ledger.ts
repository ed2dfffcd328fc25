import Type from 'typebox';
import { account, nullableString } from './fields.ts';

export const QuoteSchema = Type.Object(
  {
    project_hpc: Type.String(),
    project_name: Type.String(),
    runtime: Type.Number({ description: 'Runtime that would be granted, in hours.' }),
    cost: Type.Integer({ description: 'Charged seconds that would be put on hold.' }),
    accepted: Type.Boolean({ description: 'Whether the job would be accepted now.' }),
    reason: nullableString('Why the job would not be accepted; null if it would.'),
    binding_account: Type.Union([account, Type.Null()], { description: 'The account with too little left.' }),
    time_left: Type.Integer({ description: 'Charged seconds that would remain.' }),
    longest_runtime: Type.Number({ description: 'The longest runtime, in hours, that would fit now.' }),
  },
  {
    $id: 'Quote',
    additionalProperties: false,
    examples: [
      {
        project_hpc: 'HPC_ONE',
        project_name: 'proj_hpc_one_01',
        runtime: 0.1,
        cost: 360,
        accepted: true,
        reason: null,
        binding_account: null,
        time_left: 17_999_640,
        longest_runtime: 48,
      },
    ],
  },
);

export const UsageSchema = Type.Object(
  {
    user: Type.String(),
    project_hpc: Type.String(),
    project_name: Type.String(),
    month: Type.String({ examples: ['2026-01'] }),
    jobs: Type.Integer({ description: 'Jobs that ended.' }),
    time_seconds: Type.Integer({ description: 'Charged seconds, minus refunds.' }),
  },
  {
    $id: 'Usage',
    additionalProperties: false,
    examples: [
      {
        user: '301330',
        project_hpc: 'HPC_ONE',
        project_name: 'proj_hpc_one_01',
        month: '2026-01',
        jobs: 12,
        time_seconds: 4320,
      },
    ],
  },
);

export const LedgerVerificationSchema = Type.Object(
  {
    balanced: Type.Boolean(),
    accounts: Type.Integer({ description: 'Number of accounts checked.' }),
    entries: Type.Integer({ description: 'Number of ledger entries added up.' }),
    problems: Type.Array(Type.String(), { description: 'Inconsistencies, ordered by account.' }),
  },
  {
    $id: 'LedgerVerification',
    additionalProperties: false,
    examples: [{ balanced: true, accounts: 12, entries: 345, problems: [] }],
  },
);
