-- A fork has rows of its own for the turns that had ended where it begins: so they
-- are found by the number of a turn's last event. Forks of earlier get those of
-- their parents that are still there.
--
-- Within a JSON string no quote stands without a backslash before it, and no other
-- part of a turn has a last_seq.

ALTER TABLE parley.turns ADD COLUMN last bigint NOT NULL DEFAULT 0;
UPDATE parley.turns SET last = coalesce(substring(convert_from(body, 'UTF8') FROM '[{,]"last_seq":([0-9]+)')::bigint, 0);
INSERT INTO parley.turns (session, id, usr, org, status, live, last, body)
  SELECT h.session, t.id, s.usr, s.org, t.status, false, t.last, t.body
  FROM parley.shares h JOIN parley.sessions s ON s.id = h.session JOIN parley.turns t ON t.session = h.of
  WHERE NOT t.live AND t.last BETWEEN h.first AND h.last
  ON CONFLICT DO NOTHING;
