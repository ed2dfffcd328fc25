import Type from 'typebox';
import { maxTags } from '../domain/jobs/tags.ts';

const wholeNumber = (description: string) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: '^\\d+$' })], {
      description: `${description} A number, or a number as text. Default: set by the HPC system.`,
    }),
  );

const commonFields = {
  node_number: wholeNumber('Number of nodes.'),
  core_number: wholeNumber('Cores on each node.'),
  runtime: Type.Optional(
    Type.Union([Type.Number({ exclusiveMinimum: 0 }), Type.String()], {
      description: 'Hours of wall-clock time. A number, or a number as text. Default: set by the HPC system.',
    }),
  ),
  title: Type.Optional(Type.String({ maxLength: 256, description: 'Default: empty.' })),
  tags: Type.Optional(
    Type.Union([Type.Array(Type.String(), { maxItems: maxTags }), Type.String()], {
      description: 'Words that find the job again with `?tag=`: a list, or text with commas or spaces between them.',
    }),
  ),
};

/** The JSON in the Payload header. `domain/jobs/payload.ts` validates it, with the limits of the system. */
export const BatchPayloadSchema = Type.Object(
  {
    command: Type.String({
      minLength: 1,
      description:
        'A line for the shell, or the submit command of the system (`command_language` at `GET /hpc/`) with a script from ' +
        'the zip, such as `sbatch run.sh`.',
    }),
    ...commonFields,
  },
  {
    $id: 'BatchPayload',
    additionalProperties: false,
    description: 'A job for a batch system.',
    examples: [
      {
        command: 'sbatch --wrap="hostname; date"',
        node_number: '1',
        core_number: '1',
        runtime: '0.1',
        title: 'First job',
      },
    ],
  },
);

export const ToolPayloadSchema = Type.Object(
  { tool: Type.String({ description: 'One of the tools of the system, see `GET /hpc/`.' }), ...commonFields },
  {
    $id: 'ToolPayload',
    additionalProperties: Type.Union([Type.String(), Type.Number(), Type.Array(Type.String())], {
      description: 'A parameter of the tool.',
    }),
    description: 'A job for a tool system.',
    examples: [{ tool: 'BASH', node_number: '1', core_number: '1', runtime: '0.1', title: 'First job' }],
  },
);

export const PayloadSchema = Type.Union([BatchPayloadSchema, ToolPayloadSchema], { $id: 'Payload' });
