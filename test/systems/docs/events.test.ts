import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller } from '../../support/api.ts';
import { runFile } from '../../support/command-line.ts';
import { runThroughAllStages } from '../../support/jobs.ts';
import { findExample } from '../../support/readme.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import { sendTestEvent, webhookConfig, webhookTuning } from '../../support/webhooks.ts';

const page = readFileSync(new URL('../../../docs/events.md', import.meta.url), 'utf8');

describe('event examples in README.md and docs/events.md', () => {
  let server: TestServer;
  let endpoint: TestEndpoint;
  let me: Caller;
  let env: NodeJS.ProcessEnv;
  before(async () => {
    endpoint = await startEndpoint();
    server = await startServer({ config: webhookConfig(), tuning: webhookTuning });
    me = createCaller(server.url, server.userToken);
    env = { ...process.env, TOKEN: server.userToken };
    await runThroughAllStages(server, me);
  });
  after(async () => {
    await server.dispose();
    await endpoint.close();
  });

  test('the curl example streams the events of a job', async () => {
    const curl = spawn('bash', ['-c', `exec ${findExample('sh', '8080/events/ -H', server.url)}`], { env });
    let text = '';
    curl.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    await until('the job.ended event arrives', () => (/^event: job\.ended$/m.test(text) ? true : undefined));
    curl.kill();
    assert.match(text, /^id: 1$/m);
  });

  test('the curl examples of long polling and of a timeline work', async () => {
    const { stdout } = await runFile('bash', ['-euc', findExample('sh', '&wait=10', server.url)], { env });
    const [events = '', timeline = ''] = stdout.split(/(?<=\})(?=\{"job":)/);
    assert.equal(JSON.parse(events).next, 4);
    assert.equal(JSON.parse(timeline).entries.length, 4);
  });

  test('the curl example registers a webhook, and the Python example verifies its signature', async () => {
    const script = findExample('sh', '/webhooks/', server.url).replace('https://example.org/bursar', endpoint.url);
    const webhook = JSON.parse((await runFile('bash', ['-euc', script], { env })).stdout);
    await sendTestEvent(me, webhook);
    const [delivery] = endpoint.requests;
    assert.ok(delivery);
    const verify = findExample('python', 'def verify', '', page);
    const check = (secret: string) =>
      `${verify}\nimport json, sys\nprint(verify(${JSON.stringify(secret)}, *json.load(sys.stdin)))`;
    const python = async (secret: string) => {
      const input = JSON.stringify([delivery.headers, delivery.body]);
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
});
