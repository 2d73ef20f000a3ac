-- A key of a user's outlives the session that it made, for a while.

ALTER TABLE keys ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;  -- when that session was deleted; 0: it is there
CREATE INDEX keys_gone ON keys (gone) WHERE gone > 0;
CREATE INDEX keys_gone_of ON keys (user, org, gone, key) WHERE gone > 0;
