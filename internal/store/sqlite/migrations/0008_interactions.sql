-- A fork has rows of its own for the interactions that had ended where it begins, as
-- it has for turns. Forks of earlier get those of their parents that are still there.
-- An interaction is closed by an event that names it, or in an import by the one that
-- says where the log comes from. The events are read once for all interactions.

ALTER TABLE interactions ADD COLUMN last INTEGER NOT NULL DEFAULT 0;
UPDATE interactions SET last = e.seq
  FROM (SELECT session, max(seq) AS seq FROM events WHERE type = 'session.forked' GROUP BY session) e
  WHERE interactions.open = 0 AND e.session = interactions.session;
UPDATE interactions SET last = e.seq
  FROM (SELECT session, seq, json_extract(CAST(data AS TEXT), '$.id') AS id FROM events WHERE type IN ('interaction.answered', 'interaction.expired')) e
  WHERE interactions.open = 0 AND e.session = interactions.session AND e.id = interactions.id;
INSERT OR IGNORE INTO interactions (session, id, user, org, open, kind, opened, expires, last, body)
  SELECT h.session, i.id, s.user, s.org, 0, i.kind, i.opened, i.expires, i.last, i.body
  FROM shares h JOIN sessions s ON s.id = h.session JOIN interactions i ON i.session = h.of
  WHERE i.open = 0 AND i.last BETWEEN h.first AND h.last;
