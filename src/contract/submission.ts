import { parse as parseDisposition } from 'content-disposition';
import Type from 'typebox';
import { BursarError } from '../domain/errors.ts';
import { maxTags } from '../domain/jobs/payload-fields.ts';

/** The headers of a submission or quote, as they were received. Nothing is checked yet. */
export interface SubmissionHeaders {
  contentDisposition: string | undefined;
  /** Every Payload header of the request, decoded by Node as latin1. */
  payloads: readonly string[];
}

/** The text of the Payload header. Throws unless it was sent exactly once. */
export function requirePayloadText({ payloads }: SubmissionHeaders): string {
  const [value] = payloads;
  if (value === undefined) {
    throw new BursarError('invalid_payload', 'The header Payload is missing. Send it with one JSON object.');
  }
  if (payloads.length > 1) {
    throw new BursarError('invalid_payload', `The header Payload was sent ${payloads.length} times. Send it once.`);
  }
  // Most clients send UTF-8. Any other text stays latin1.
  try {
    return utf8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The parsed Payload, for comparing a request with an earlier one: formatting does not matter. */
export function toComparablePayload(headers: SubmissionHeaders): unknown {
  const text = requirePayloadText(headers);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Throws unless the header names a zip file, as the API contract requires. */
export function requireZipAttachment({ contentDisposition }: SubmissionHeaders): void {
  if (contentDisposition === undefined) throw invalidDisposition('The header Content-Disposition is missing.');
  const { type, parameters } = parseHeader(contentDisposition);
  if (type.toLowerCase() !== 'attachment') throw invalidDisposition('The disposition must be "attachment".');
  const name = parameters.filename;
  if (name === undefined || name === '') throw invalidDisposition('The header Content-Disposition names no file.');
  if (/[/\\\0]/.test(name)) throw invalidDisposition('The file name must not contain path parts.');
  if (!/.\.zip$/i.test(name)) throw invalidDisposition('The file name must end in .zip.');
}

function invalidDisposition(problem: string, cause?: unknown): BursarError {
  const message = `${problem} Send "Content-Disposition: attachment; filename=job.zip".`;
  return new BursarError('invalid_content_disposition', message, { cause });
}

function parseHeader(header: string) {
  try {
    return parseDisposition(header);
  } catch (cause) {
    throw invalidDisposition(
      'The header cannot be parsed; a name with spaces or special characters needs quotes.',
      cause,
    );
  }
}

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
