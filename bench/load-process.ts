import { readFileSync } from 'node:fs';
import autocannon from 'autocannon';
import Sqlite from 'better-sqlite3';
import type { JobChanges, Load, LoadResult } from './load.ts';

process.on('message', (load: Load) => {
  sendLoad(load).then(
    (result) => process.send?.(result),
    (error: Error) => process.send?.({ error: error.message }),
  );
});

async function sendLoad(load: Load): Promise<LoadResult> {
  const { url, paths, method = 'GET', headers, bodyFile, connections, seconds } = load;
  const jobChanger = load.change && openJobChanger(load.change);
  const body = bodyFile === undefined ? {} : { body: readFileSync(bodyFile) };
  const requests = paths.map((path) => ({ path, ...(jobChanger ? { setupRequest: jobChanger.setupRequest } : {}) }));
  const amount = { amount: connections * 2 };
  const result = await autocannon({
    url,
    method,
    headers,
    connections,
    requests,
    ...body,
    ...(seconds === null ? amount : { duration: seconds }),
    timeout: 60,
    sampleInt: 50,
  });
  jobChanger?.close();
  return checkResult(load, result);
}

function checkResult({ status, url, paths }: Load, result: autocannon.Result): LoadResult {
  const { errors, timeouts, statusCodeStats = {} } = result;
  const responses = Object.values(statusCodeStats).reduce((sum, { count }) => sum + (count ?? 0), 0);
  const unexpected = Object.keys(statusCodeStats).filter((code) => code !== String(status));
  if (errors > 0 || timeouts > 0 || unexpected.length > 0 || responses === 0) {
    const counts = JSON.stringify({ errors, timeouts, statusCodeStats });
    throw new Error(`${url}${paths[0]} did not always respond with ${status}: ${counts}`);
  }
  return { responses, seconds: (result.finish.getTime() - result.start.getTime()) / 1000 };
}

/** Changes jobs in the database directly, as another process would. */
function openJobChanger({ database: file, callers }: JobChanges) {
  const database = new Sqlite(file);
  database.pragma('synchronous = OFF');
  const incrementVersion = database.prepare('update users set jobs_version = jobs_version + 1 where id = ?');
  const write = database.prepare('update jobs set public_json = ? where id = ?');
  let count = 0;
  const change = database.transaction((caller: JobChanges['callers'][number]) => {
    incrementVersion.run(caller.owner);
    write.run(caller.json[count++ % 2], caller.job);
  });
  let next = 0;
  return {
    setupRequest(request: autocannon.Request): autocannon.Request {
      const caller = callers[next++ % callers.length];
      if (caller === undefined) throw new Error('no callers given');
      change(caller);
      return { ...request, headers: { ...request.headers, authorization: `Bearer ${caller.token}` } };
    },
    close: () => database.close(),
  };
}
