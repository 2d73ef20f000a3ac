-- Where a session's events are, is kept by stretches instead of an entry of an index for
-- each event. An append adds its rows at the end of events, one after another, and says so
-- in its session's row, which it writes anyway: "first last at" are the numbers of its first
-- and last event and the row of the first. Some such spans together are a row of spans.
ALTER TABLE events RENAME TO events_14;
CREATE TABLE events (
  at      INTEGER PRIMARY KEY,
  session TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  turn    TEXT NOT NULL,
  agent   TEXT NOT NULL,
  time    INTEGER NOT NULL,
  type    TEXT NOT NULL,
  v       INTEGER NOT NULL,
  data    BLOB                  -- NULL when condensed
);
INSERT INTO events (session, seq, turn, agent, time, type, v, data)
  SELECT session, seq, turn, agent, time, type, v, data FROM events_14 ORDER BY session, seq;
DROP TABLE events_14;
CREATE TABLE spans (
  session TEXT NOT NULL,
  first   INTEGER NOT NULL,     -- the number of the first event
  body    TEXT NOT NULL,        -- spans in the order of their numbers: "1 3 101 4 5 120"
  PRIMARY KEY (session, first)
) WITHOUT ROWID;
WITH starts AS (
  SELECT at, session, seq FROM (SELECT at, session, seq, lag(session) OVER w AS before, lag(seq) OVER w AS behind FROM events WINDOW w AS (ORDER BY at))
  WHERE session IS NOT before OR seq <> behind + 1
)
INSERT INTO spans SELECT session, seq, seq || ' ' || (seq + lead(at, 1, (SELECT max(at) + 1 FROM events)) OVER (ORDER BY at) - at - 1) || ' ' || at FROM starts;
ALTER TABLE sessions ADD COLUMN tail TEXT NOT NULL DEFAULT '';  -- the latest spans

-- What was computed from the row's JSON, by searching it, for each index and each append.
DROP TRIGGER holdings_made;
DROP TRIGGER holdings_gone;
DROP INDEX sessions_listed;
DROP INDEX sessions_unlisted;
DROP INDEX sessions_direct;
DROP INDEX sessions_rest;
DROP INDEX sessions_steps;
ALTER TABLE sessions DROP COLUMN direct;
ALTER TABLE sessions DROP COLUMN waits;
ALTER TABLE sessions ADD COLUMN direct INTEGER NOT NULL DEFAULT 0;  -- it is of a direct call
ALTER TABLE sessions ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;   -- it is held, and by more than a running turn
UPDATE sessions SET direct = instr(info, CAST(',"direct":true' AS BLOB)) > 0,
  waits = held = 1 AND (instr(info, CAST('"waiting":0' AS BLOB)) = 0 OR instr(info, CAST('"status":"waiting"' AS BLOB)) > 0);
CREATE INDEX sessions_listed ON sessions (user, org, updated, id) WHERE direct = 0;
CREATE INDEX sessions_unlisted ON sessions (user, org, updated, id) WHERE direct = 1;
CREATE INDEX sessions_direct ON sessions (app, status, updated, id) WHERE held = 0 AND direct = 1;
CREATE INDEX sessions_rest ON sessions (app, status, hour, id) WHERE waits = 0;
CREATE INDEX sessions_steps ON sessions (app, since, id) WHERE waits = 0 AND since > 0;
CREATE TRIGGER holdings_made AFTER INSERT ON sessions BEGIN
  INSERT INTO holdings (user, org, sessions, direct, bytes) VALUES (new.user, new.org, new.direct = 0, new.direct = 1, new.bytes)
    ON CONFLICT DO UPDATE SET sessions = sessions + excluded.sessions, direct = direct + excluded.direct, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER holdings_gone AFTER DELETE ON sessions BEGIN
  UPDATE holdings SET sessions = sessions - (old.direct = 0), direct = direct - (old.direct = 1), bytes = bytes - old.bytes
    WHERE user = old.user AND org = old.org;
  DELETE FROM holdings WHERE user = old.user AND org = old.org AND sessions = 0 AND direct = 0;
END;
