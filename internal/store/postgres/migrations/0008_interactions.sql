-- A fork has rows of its own for the interactions that had ended where it begins, as
-- it has for turns. Forks of earlier get those of their parents that are still there.
-- An interaction is closed by an event that names it, or in an import by the one that
-- says where the log comes from. The events are read once for all interactions.
--
-- An event's data begins with the id that it names.

ALTER TABLE parley.interactions ADD COLUMN last bigint NOT NULL DEFAULT 0;
UPDATE parley.interactions i SET last = e.seq
  FROM (SELECT session, max(seq) AS seq FROM parley.events WHERE type = 'session.forked' GROUP BY session) e
  WHERE NOT i.open AND e.session = i.session;
UPDATE parley.interactions i SET last = e.seq
  FROM parley.events e
  WHERE NOT i.open AND e.session = i.session AND e.type IN ('interaction.answered', 'interaction.expired')
    AND substring(convert_from(e.data, 'UTF8') FROM '^\{"id":"([^"]*)"') = convert_from(i.id, 'UTF8');
INSERT INTO parley.interactions (session, id, usr, org, open, kind, opened, expires, last, body)
  SELECT h.session, i.id, s.usr, s.org, false, i.kind, i.opened, i.expires, i.last, i.body
  FROM parley.shares h JOIN parley.sessions s ON s.id = h.session JOIN parley.interactions i ON i.session = h.of
  WHERE NOT i.open AND i.last BETWEEN h.first AND h.last
  ON CONFLICT DO NOTHING;
