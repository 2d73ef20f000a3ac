-- What is found by kind and owner, or by the time when it is due: timers, what is to be
-- sent, devices, schedules. A sequence gives no version twice.

CREATE SEQUENCE IF NOT EXISTS parley.index_rows_version;
CREATE TABLE IF NOT EXISTS parley.index_rows (
  kind    bytea NOT NULL,
  usr     bytea NOT NULL,
  org     bytea NOT NULL,
  id      bytea NOT NULL,
  version bigint NOT NULL DEFAULT nextval('parley.index_rows_version'),
  session bytea NOT NULL,       -- '' for none
  due     bigint NOT NULL,      -- 0: never
  open    boolean NOT NULL,
  kib     bigint NOT NULL,      -- what it counts towards its owner's limit
  body    bytea NOT NULL,
  PRIMARY KEY (kind, usr, org, id) INCLUDE (kib)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS index_rows_due ON parley.index_rows (kind, due, usr, org, id) WHERE open AND due > 0;
CREATE INDEX IF NOT EXISTS index_rows_session ON parley.index_rows (session, kind, usr, org, id) WHERE session <> ''::bytea;
