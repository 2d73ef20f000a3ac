-- A commit writes whole pages, so what an append costs is how many pages it changes: at
-- least one of each table and index.

-- Events keep their rowid. Those of one commit then lie together at the end of the table,
-- whichever sessions they are of, and only the small entries of the index lie by session.
-- Rows by session had to be moved to new pages whenever a session grew between others.
ALTER TABLE events RENAME TO events_13;
CREATE TABLE events (
  session TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  turn    TEXT NOT NULL,
  agent   TEXT NOT NULL,
  time    INTEGER NOT NULL,
  type    TEXT NOT NULL,
  v       INTEGER NOT NULL,
  data    BLOB,                 -- NULL when condensed
  PRIMARY KEY (session, seq)
);
INSERT INTO events (session, seq, turn, agent, time, type, v, data)
  SELECT session, seq, turn, agent, time, type, v, data FROM events_13 ORDER BY session, seq;
DROP TABLE events_13;

-- A session is in one of two lists, which are merged for those who ask for both.
DROP INDEX sessions_recent;
CREATE INDEX sessions_unlisted ON sessions (user, org, updated, id) WHERE direct = 1;

-- What is at rest is found by the hour of its last change, so that turns within an hour do
-- not move it. A session with a running turn stays where it is, since such turns are few
-- and soon over; one that waits for somebody is not there. An entry that has not changed is
-- not written again, but SQLite compares only those of computed columns: hence since.
DROP INDEX sessions_rest;
DROP INDEX sessions_steps;
ALTER TABLE sessions ADD COLUMN hour INTEGER GENERATED ALWAYS AS (updated / 3600000) VIRTUAL;
ALTER TABLE sessions ADD COLUMN since INTEGER GENERATED ALWAYS AS (steps) VIRTUAL;
ALTER TABLE sessions ADD COLUMN waits INTEGER GENERATED ALWAYS AS (held = 1 AND
  (instr(info, CAST('"waiting":0' AS BLOB)) = 0 OR instr(info, CAST('"status":"waiting"' AS BLOB)) > 0)) VIRTUAL;
CREATE INDEX sessions_rest ON sessions (app, status, hour, id) WHERE waits = 0;
CREATE INDEX sessions_steps ON sessions (app, since, id) WHERE waits = 0 AND since > 0;

-- What a user's sessions hold together. Those of direct calls are counted apart.
DROP INDEX sessions_held;
CREATE TABLE holdings (
  user     TEXT NOT NULL,
  org      TEXT NOT NULL,
  sessions INTEGER NOT NULL,
  direct   INTEGER NOT NULL,
  bytes    INTEGER NOT NULL,
  PRIMARY KEY (user, org)
) WITHOUT ROWID;
INSERT INTO holdings SELECT user, org, count(*) FILTER (WHERE direct = 0), count(*) FILTER (WHERE direct = 1), sum(bytes) FROM sessions GROUP BY user, org;
CREATE TRIGGER holdings_made AFTER INSERT ON sessions BEGIN
  INSERT INTO holdings (user, org, sessions, direct, bytes) VALUES (new.user, new.org, new.direct = 0, new.direct = 1, new.bytes)
    ON CONFLICT DO UPDATE SET sessions = sessions + excluded.sessions, direct = direct + excluded.direct, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER holdings_grown AFTER UPDATE OF bytes ON sessions WHEN new.bytes <> old.bytes BEGIN
  UPDATE holdings SET bytes = bytes + new.bytes - old.bytes WHERE user = new.user AND org = new.org;
END;
CREATE TRIGGER holdings_gone AFTER DELETE ON sessions BEGIN
  UPDATE holdings SET sessions = sessions - (old.direct = 0), direct = direct - (old.direct = 1), bytes = bytes - old.bytes
    WHERE user = old.user AND org = old.org;
  DELETE FROM holdings WHERE user = old.user AND org = old.org AND sessions = 0 AND direct = 0;
END;

-- A session's keys are found by the session itself.
DROP INDEX keys_of;
CREATE INDEX keys_of ON keys (of) WHERE session = '';
