-- Apps have tables of their own, whose names begin with the app's and a dot. This is the
-- version up to which each app's migrations have run.

CREATE TABLE IF NOT EXISTS app_tables (app TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
