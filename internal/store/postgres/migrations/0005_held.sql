-- What a session holds: the bytes of its events and artifacts, those that it shares
-- with its parent included. So what a user holds is read from an index alone.

ALTER TABLE parley.sessions ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
UPDATE parley.sessions s SET bytes = (SELECT coalesce(sum(octet_length(data)), 0) FROM parley.events e WHERE e.session = s.id)
  + (SELECT coalesce(sum(octet_length(b.body)), 0) FROM parley.refs r JOIN parley.blobs b USING (digest) WHERE r.session = s.id);
CREATE INDEX sessions_held ON parley.sessions (usr, org, bytes);
