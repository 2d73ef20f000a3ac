-- A key of a user's outlives the session that it made, for a while.

ALTER TABLE parley.keys ADD COLUMN gone bigint NOT NULL DEFAULT 0;  -- when that session was deleted; 0: it is there
CREATE INDEX keys_gone ON parley.keys (gone) WHERE gone > 0;
CREATE INDEX keys_gone_of ON parley.keys (usr, org, gone, key) WHERE gone > 0;
