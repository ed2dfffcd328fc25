import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { eventKinds } from '../../src/domain/event.ts';
import { type Caller, callerOf } from '../support/api.ts';
import { runFile } from '../support/command-line.ts';
import { seenThrough } from '../support/jobs.ts';
import { example } from '../support/readme.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import { sendTestEvent, webhookConfig } from '../support/webhooks.ts';

const page = readFileSync(new URL('../../docs/events.md', import.meta.url), 'utf8');

describe('what is written about events', () => {
  let server: TestServer;
  let to: TestEndpoint;
  let me: Caller;
  let env: NodeJS.ProcessEnv;
  before(async () => {
    to = await startEndpoint();
    server = await startServer({ config: webhookConfig() });
    me = callerOf(server.url, server.userToken);
    env = { ...process.env, TOKEN: server.userToken };
    await seenThrough(server, me);
  });
  after(async () => {
    await server.dispose();
    await to.close();
  });

  test('the README shows a stream by curl that tells what has happened', async () => {
    const curl = spawn('bash', ['-c', `exec ${example('sh', '8080/events/ -H', server.url)}`], { env });
    let text = '';
    curl.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    await until('the end of the job is told', () => (/^event: job\.ended$/m.test(text) ? true : undefined));
    curl.kill();
    assert.match(text, /^id: 1$/m);
  });

  test('the README shows long polling and a timeline by curl', async () => {
    const { stdout } = await runFile('bash', ['-euc', example('sh', '&wait=10', server.url)], { env });
    const [events = '', timeline = ''] = stdout.split(/(?<=\})(?=\{"job":)/);
    assert.equal(JSON.parse(events).next, 4);
    assert.equal(JSON.parse(timeline).entries.length, 4);
  });

  test('the README shows how to register a webhook, and the page how to verify what arrives', async () => {
    const script = example('sh', '/webhooks/', server.url).replace('https://example.org/bursar', to.url);
    const webhook = JSON.parse((await runFile('bash', ['-euc', script], { env })).stdout);
    await sendTestEvent(me, webhook);
    const [one] = to.requests;
    assert.ok(one);
    const verify = example('python', 'def verify', '', page);
    const check = (secret: string) =>
      `${verify}\nimport json, sys\nprint(verify(${JSON.stringify(secret)}, *json.load(sys.stdin)))`;
    const python = async (secret: string) => {
      const input = JSON.stringify([one.headers, one.body]);
      const child = spawn('python3', ['-c', check(secret)]);
      let out = '';
      child.stdout.setEncoding('utf8').on('data', (part: string) => {
        out += part;
      });
      child.stdin.end(input);
      await new Promise((resolve) => child.once('close', resolve));
      return out.trim();
    };
    assert.equal(await python(webhook.secret), 'True');
    assert.equal(await python(`whsec_${Buffer.alloc(32).toString('base64')}`), 'False');
  });

  test('the page names every type of event that there is, and no other', () => {
    const named = [...page.matchAll(/^\| `(\w+\.\w+)` \|/gm)].map(([, type]) => type);
    assert.deepEqual(named, Object.keys(eventKinds));
  });
});
