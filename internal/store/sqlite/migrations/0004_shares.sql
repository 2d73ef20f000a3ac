-- A fork does not copy its parent's events: it reads them where they are. What
-- it reads is one entry for each log whose rows it needs, whichever sessions lie
-- between, so a fork of a fork of a fork asks no further than a fork does.
--
-- Rows stay where they are when the session that appended them is deleted, as
-- long as a share needs them.

CREATE TABLE shares (
  session TEXT NOT NULL,        -- who reads
  first   INTEGER NOT NULL,
  last    INTEGER NOT NULL,
  of      TEXT NOT NULL,        -- the session that appended first to last
  PRIMARY KEY (session, first)
) WITHOUT ROWID;
CREATE INDEX shares_of ON shares (of, last);

-- Events up to shared are others' rows; steps up to condensed are read without
-- their data.
ALTER TABLE sessions ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN condensed INTEGER NOT NULL DEFAULT 0;
