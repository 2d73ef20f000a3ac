-- What a session holds: the bytes of its events and artifacts, those that it shares
-- with its parent included. So what a user holds is read from an index alone.

ALTER TABLE sessions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET bytes = (SELECT coalesce(sum(length(data)), 0) FROM events WHERE session = id)
  + (SELECT coalesce(sum(length(b.body)), 0) FROM refs r JOIN bodies b USING (digest) WHERE r.session = id);
CREATE INDEX sessions_held ON sessions (user, org, bytes);
