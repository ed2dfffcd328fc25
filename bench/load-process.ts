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
  const changing = load.change && openJobChanger(load.change);
  const body = bodyFile === undefined ? {} : { body: readFileSync(bodyFile) };
  const requests = paths.map((path) => ({ path, ...(changing ? { setupRequest: changing.setupRequest } : {}) }));
  const amount = { amount: Math.max(connections, paths.length) * 2 };
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
  changing?.close();
  return checkResult(load, result);
}

function checkResult({ status, url, paths }: Load, result: autocannon.Result): LoadResult {
  const { errors, timeouts, statusCodeStats = {} } = result;
  const answers = Object.values(statusCodeStats).reduce((sum, { count }) => sum + (count ?? 0), 0);
  const others = Object.keys(statusCodeStats).filter((code) => code !== String(status));
  if (errors > 0 || timeouts > 0 || others.length > 0 || answers === 0) {
    const seen = JSON.stringify({ errors, timeouts, statusCodeStats });
    throw new Error(`${url}${paths[0]} should have answered ${status} every time: ${seen}`);
  }
  return { responses: answers, seconds: (result.finish.getTime() - result.start.getTime()) / 1000 };
}

/** Writes behind the back of the server, as another process on the same books would. */
function openJobChanger({ database, callers }: JobChanges) {
  const books = new Sqlite(database);
  books.pragma('synchronous = OFF');
  const raise = books
    .prepare('update users set jobs_version = jobs_version + 1 where id = ? returning jobs_version')
    .pluck();
  const write = books.prepare('update jobs set public_json = ?, version = ? where id = ?');
  let count = 0;
  const change = books.transaction((caller: JobChanges['callers'][number]) => {
    write.run(caller.json[count++ % 2], raise.get(caller.owner), caller.job);
  });
  let next = 0;
  return {
    setupRequest(request: autocannon.Request): autocannon.Request {
      const caller = callers[next++ % callers.length];
      if (caller === undefined) throw new Error('there is nobody whose jobs could change');
      change(caller);
      return { ...request, headers: { ...request.headers, authorization: `Bearer ${caller.token}` } };
    },
    close: () => books.close(),
  };
}
