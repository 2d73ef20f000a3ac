-- Apps have tables of their own, in a schema parley_NAME for each. This is the version up
-- to which each app's migrations have run.

CREATE TABLE IF NOT EXISTS parley.app_tables (app text PRIMARY KEY, version integer NOT NULL);
