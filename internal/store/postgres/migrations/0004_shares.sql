-- A fork does not copy its parent's events: it reads them where they are. What
-- it reads is one entry for each log whose rows it needs, whichever sessions lie
-- between, so a fork of a fork of a fork asks no further than a fork does.
--
-- Rows stay where they are when the session that appended them is deleted, as
-- long as a share needs them.

CREATE TABLE parley.shares (
  session bytea NOT NULL,       -- who reads
  first   bigint NOT NULL,
  last    bigint NOT NULL,
  of      bytea NOT NULL,       -- the session that appended first to last
  PRIMARY KEY (session, first)
);
CREATE INDEX shares_of ON parley.shares (of, last);

-- Events up to shared are others' rows; steps up to condensed are read without
-- their data.
ALTER TABLE parley.sessions ADD COLUMN shared bigint NOT NULL DEFAULT 0;
ALTER TABLE parley.sessions ADD COLUMN condensed bigint NOT NULL DEFAULT 0;
