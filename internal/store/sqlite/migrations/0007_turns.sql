-- A fork has rows of its own for the turns that had ended where it begins: so they
-- are found by the number of a turn's last event. Forks of earlier get those of
-- their parents that are still there.

ALTER TABLE turns ADD COLUMN last INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET last = coalesce(json_extract(CAST(body AS TEXT), '$.last_seq'), 0);
INSERT OR IGNORE INTO turns (session, id, user, org, status, live, last, body)
  SELECT h.session, t.id, s.user, s.org, t.status, 0, t.last, t.body
  FROM shares h JOIN sessions s ON s.id = h.session JOIN turns t ON t.session = h.of
  WHERE t.live = 0 AND t.last BETWEEN h.first AND h.last;
