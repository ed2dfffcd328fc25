import type { Timeline } from '@bursar/client';
import { quoteWord } from '../../../../../src/domain/jobs/command.ts';

/** The request of a job, as texts that submit it again. They read the token from the environment: no secret is in them. */
export interface SubmissionCommands {
  commandLine: string;
  curl: string;
  python: string;
}

interface Target {
  /** Address of the server. */
  url: string;
  hpc: string;
}

export function submissionCommands(timeline: Timeline, target: Target): SubmissionCommands {
  return {
    commandLine: commandLine(timeline, target),
    curl: curl(timeline, target),
    python: python(timeline, target),
  };
}

function commandLine({ job, tags, request }: Timeline, { hpc }: Target): string {
  const options = [
    ['--system', hpc],
    ['--project', job.project_name],
    ...(request.command === null ? [] : [['--command', request.command]]),
    ...(request.tool === null ? [] : [['--tool', request.tool]]),
    ['--nodes', String(request.nodes)],
    ['--cores', String(request.cores_per_node)],
    ['--runtime', String(request.runtime)],
    ...(job.title === '' ? [] : [['--title', job.title]]),
    ...tags.map((tag) => ['--tag', tag]),
    ...Object.entries(request.params ?? {}).map(([name, value]) => ['--param', `${name}=${wordsOf(value)}`]),
  ];
  // A value that looks like an option is joined to its name.
  const lines = options.map(([name, value = '']) => `${name}${value.startsWith('-') ? '=' : ' '}${quoteWord(value)}`);
  return ['bursar submit folder', ...lines].join(' \\\n  ');
}

/** A list of words is one text on the command line, which is split as a shell splits it. */
const wordsOf = (value: string | string[]) => (Array.isArray(value) ? value.map(quoteWord).join(' ') : value);

function curl({ job, tags, request }: Timeline, { url, hpc }: Target): string {
  const { command, tool, nodes, cores_per_node: cores, runtime, params } = request;
  const payload = {
    ...(command === null ? {} : { command }),
    ...(tool === null ? {} : { tool }),
    node_number: nodes,
    core_number: cores,
    runtime,
    title: job.title,
    ...(tags.length === 0 ? {} : { tags }),
    ...params,
  };
  const path = [hpc, job.project_name].map(encodeURIComponent).join('/');
  return [
    `curl ${quoteWord(`${url}/jobs/${path}/`)}`,
    '-H "Authorization: Bearer $BURSAR_TOKEN"',
    "-H 'Content-Disposition: attachment; filename=job.zip'",
    `-H ${quoteWord(`Payload: ${asciiJson(payload)}`)}`,
    '--data-binary @job.zip',
  ].join(' \\\n  ');
}

function python({ job, tags, request }: Timeline, { url, hpc }: Target): string {
  const { command, tool, nodes, cores_per_node: cores, runtime, params } = request;
  const values = {
    system: hpc,
    project: job.project_name,
    ...(command === null ? {} : { command }),
    ...(tool === null ? {} : { tool }),
    nodes,
    cores,
    runtime,
    title: job.title,
    ...(tags.length === 0 ? {} : { tags }),
    ...(params === null || Object.keys(params).length === 0 ? {} : { params }),
  };
  // Texts, numbers, lists and objects are written in Python as in JSON.
  const lines = Object.entries(values).map(([name, value]) => `    ${name}=${JSON.stringify(value)},`);
  return [
    'import os',
    'from bursar import Bursar',
    '',
    `bursar = Bursar(${JSON.stringify(url)}, os.environ["BURSAR_TOKEN"])`,
    'job = bursar.submit(',
    '    "folder",',
    ...lines,
    ')',
    'job.wait(progress=True)',
  ].join('\n');
}

/** Headers have ASCII only. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
