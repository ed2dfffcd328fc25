// Sums up all ledger entries of a SQLite database by account, in one statement.
import Sqlite from 'better-sqlite3';

process.once('message', ({ file }: { file: string }) => {
  const database = new Sqlite(file, { readonly: true });
  const pass = database.prepare(
    'select account_id, sum(granted), sum(held), sum(posted), sum(overrun) from entries group by account_id',
  );
  process.on('message', () => {
    const startedAt = performance.now();
    pass.all();
    process.send?.({ seconds: (performance.now() - startedAt) / 1000 });
  });
  process.once('disconnect', () => process.exit());
  process.send?.({});
});
