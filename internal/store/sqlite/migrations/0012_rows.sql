-- What is found by kind and owner, or by the time when it is due: timers, what is to be
-- sent, devices, schedules. AUTOINCREMENT uses no version twice.

CREATE TABLE IF NOT EXISTS index_rows (
  version INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL, user TEXT NOT NULL, org TEXT NOT NULL, id TEXT NOT NULL,
  session TEXT NOT NULL,                                      -- '' for none
  due INTEGER NOT NULL,                                       -- 0: never
  open INTEGER NOT NULL,
  kib INTEGER NOT NULL,                                       -- what it counts towards its owner's limit
  body BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS index_rows_id ON index_rows (kind, user, org, id);
CREATE INDEX IF NOT EXISTS index_rows_due ON index_rows (kind, due, user, org, id) WHERE open = 1 AND due > 0;
CREATE INDEX IF NOT EXISTS index_rows_session ON index_rows (session, kind, user, org, id) WHERE session <> '';
CREATE INDEX IF NOT EXISTS index_rows_kib ON index_rows (kind, user, org, kib);
