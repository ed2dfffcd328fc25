import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { decryptSecret, encryptSecret } from '../../../src/secrets/cipher.ts';
import { createKeyring } from '../../../src/secrets/keyring.ts';
import { convertStoredSecrets, secretPlace } from '../../../src/store/events/webhook-secrets.ts';
import { runBursar } from '../../support/command-line.ts';
import { withDatabase } from '../../support/database.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let server: TestServer;
before(async () => {
  server = await startServer();
});
after(() => server.dispose());

test('a rotation that is killed leaves every secret readable, and is completed by the next one', async () => {
  const count = 20_000;
  const openKeyring = () => createKeyring({ configuredKeys: [], dataFolder: server.data });
  const key = openKeyring().current();
  await withDatabase(server.data, async (db) => {
    const { id: user_id } = await db.selectFrom('users').select('id').limit(1).executeTakeFirstOrThrow();
    const common = {
      user_id,
      description: '',
      secret: '',
      former_until: 0,
      created_at: 1,
      failures: 0,
      pause_until: 0,
    };
    for (let from = 0; from < count; from += 1000) {
      const rows = Array.from({ length: 1000 }, (_, index) => ({ ...common, url: `https://x.test/${from + index}` }));
      await db.insertInto('webhooks').values(rows).execute();
    }
    await convertStoredSecrets(db, (stored, id) =>
      stored === '' ? encryptSecret(key, `whsec_${id}`, secretPlace(id)) : stored,
    );
    const added = () => db.selectFrom('webhooks').where('url', 'like', 'https://x.test/%');
    const countConverted = async (formerKey: string) => {
      const query = added().where('secret', 'not like', `enc:1:${formerKey}:%`);
      const { converted } = await query.select((eb) => eb.fn.countAll().as('converted')).executeTakeFirstOrThrow();
      return Number(converted);
    };
    // On a busy machine a rotation may be complete before it is killed.
    const formerKey = await until('a rotation is killed in the middle', async () => {
      const { id } = openKeyring().current();
      const rotation = runBursar(['secrets', 'rotate'], server.environment);
      const ended = rotation.catch(() => undefined);
      await until('the first are converted', async () => (await countConverted(id)) > 0 || undefined);
      rotation.child.kill('SIGKILL');
      await ended;
      return (await countConverted(id)) < count ? id : undefined;
    });
    const keyring = openKeyring();
    for (const { id, secret } of await added().select(['id', 'secret']).execute())
      assert.equal(decryptSecret(keyring, secret, secretPlace(id)), `whsec_${id}`);
    await server.bursar('secrets', 'rotate');
    assert.equal(await countConverted(formerKey), count);
    await db.deleteFrom('webhooks').where('url', 'like', 'https://x.test/%').execute();
  });
});
